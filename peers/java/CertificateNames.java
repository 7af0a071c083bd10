import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * For each line, rules and the encoded name in a certificate: that name, and what the rules make of
 * it. "-" if no rule fits, "!" if it is no rule, or one that
 * fails.
 */
public class CertificateNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            byte[] rules = Base64.getDecoder().decode(parts[0]);
            String name = new X500Principal(Base64.getDecoder().decode(parts[1])).getName();
            String text = new String(rules, StandardCharsets.UTF_8);
            System.out.println(shown(name) + " " + mapped(text, name));
        }
    }

    private static String mapped(String rules, String name) {
        SslPrincipalMapper mapper;
        try {
            mapper = SslPrincipalMapper.fromRules(rules);
        } catch (IllegalArgumentException refused) {
            return "!";
        }
        try {
            return shown(mapper.getName(name));
        } catch (RuntimeException useless) {
            return "!";
        } catch (Exception unmatched) {
            return "-";
        }
    }

    private static String shown(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
