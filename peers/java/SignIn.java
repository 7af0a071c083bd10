import java.io.FileReader;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** For each file of settings a line: whether somebody with these comes in. */
public class SignIn {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties settings = new Properties();
            try (FileReader reader = new FileReader(file)) {
                settings.load(reader);
            }
            try (Admin admin = Admin.create(settings)) {
                System.out.println("in " + admin.describeCluster().nodes().get().size());
            } catch (ExecutionException refused) {
                if (!(refused.getCause() instanceof AuthenticationException)) {
                    throw refused;
                }
                System.out.println("out " + refused.getCause().getClass().getSimpleName());
            }
        }
    }

    /** Gives the token of its JAAS configuration, however old that is. */
    public static class Tokens implements AuthenticateCallbackHandler {
        private String value;

        @Override
        public void configure(
                Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) {
            value = (String) entries.get(0).getOptions().get("token");
        }

        @Override
        public void handle(Callback[] callbacks) {
            for (Callback each : callbacks) {
                if (each instanceof OAuthBearerTokenCallback asked) {
                    asked.token(new Token(value));
                }
            }
        }

        @Override
        public void close() {}
    }

    private record Token(String value) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return System.currentTimeMillis() + 3_600_000;
        }

        @Override
        public String principalName() {
            return "ana";
        }

        @Override
        public Long startTimeMs() {
            return null;
        }
    }
}
