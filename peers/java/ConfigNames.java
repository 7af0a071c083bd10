import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** What a consumer and a producer can be told, a line for each. */
public class ConfigNames {
    public static void main(String[] arguments) {
        TreeSet<String> names = new TreeSet<>(ConsumerConfig.configNames());
        names.addAll(ProducerConfig.configNames());
        names.forEach(System.out::println);
    }
}
