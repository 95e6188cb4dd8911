import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Answers questions about the Kafka protocol with Kafka's own classes.
 *
 * <p>Each line on stdin is a JSON object whose "do" names the question; each line on stdout is its answer, either
 * {"answer": ...} or {"error": "..."}. The end of stdin ends the program.
 */
public final class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not land between the answers
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode reply = JSON.createObjectNode();
            try {
                reply.set("answer", answer(JSON.readTree(line)));
            } catch (Exception error) {
                error.printStackTrace();
                reply.put("error", error.toString());
            }
            answers.println(JSON.writeValueAsString(reply));
            answers.flush();
        }
    }

    private static JsonNode answer(JsonNode ask) throws Exception {
        String question = ask.get("do").asText();
        switch (question) {
            case "schemas":
                return Messages.of(ask).schemas();
            case "headers":
                return Messages.of(ask).headers(ask);
            case "unset_message":
                return Messages.of(ask).unset(ask);
            case "random_messages":
                return Messages.of(ask).random(ask);
            case "same_messages":
                return Messages.of(ask).same(ask);
            case "read_messages":
                return Messages.of(ask).read(ask);
            case "convert_messages":
                return Messages.of(ask).convert(ask);
            case "errors":
                return Tables.errors();
            case "partitions":
                return Tables.partitions(ask);
            case "durations":
                return Tables.durations(ask);
            case "write_batches":
                return Batches.write(ask.get("batches"));
            case "read_batches":
                return Batches.read(ask.get("bytes").binaryValue());
            case "assign":
                return Assignors.assign(ask);
            case "time_assignor":
                return Assignors.time(ask);
            case "group_blobs":
                return Groups.blobs(ask);
            case "read_group_blobs":
                return Groups.readBlobs(ask);
            case "read_topic":
                return TopicReader.read(ask);
            default:
                throw new IllegalArgumentException("no such question: " + question);
        }
    }
}
