// SPDX-License-Identifier: Apache-2.0
// Runs Java for the code interpreter, with the JDK's own shell: JavaKernel.java COMMANDS EVENTS INTERRUPTS (README.md
// has the protocol). Variables of the environment are system properties, because a Java program cannot change its own
// environment.
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;

public class JavaKernel {
    private static final long AGAIN_MS = 100;
    private final OutputStream events;
    private final JShell shell;
    private Map<String, String> globals = new LinkedHashMap<>();
    private long calls;                // so far
    private volatile long running;     // the call that runs; 0: none
    private volatile long unwanted;    // the last one that was interrupted

    private JavaKernel(String eventsPath) throws IOException {
        events = new FileOutputStream(eventsPath);
        // In this process: what it prints goes to our own output, and a start takes half the time.
        shell = JShell.builder().executionEngine("local").out(System.out).err(System.err).build();
        for (String line : List.of("java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.util.*",
                "java.util.concurrent.*", "java.util.function.*", "java.util.regex.*", "java.util.stream.*")) {
            shell.eval("import " + line + ";");
        }
        // The signal is for what the code has started.
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> { });
    }

    // Takes interrupts: numbers of calls. The shell stops only code that runs just now, and not what it compiles or begins, so
    // it is asked until the call has ended.
    private void takeInterrupts(String path) {
        try (BufferedReader numbers = new BufferedReader(new InputStreamReader(new FileInputStream(path)))) {
            for (String line; (line = numbers.readLine()) != null; ) {
                long call = Long.parseLong(line);
                unwanted = call;
                for (; running == call; Thread.sleep(AGAIN_MS)) shell.stop();
            }
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    // The client is told of it.
    private boolean wasStopped() throws IOException {
        if (unwanted != running) return false;
        error("Interrupted", "the code was interrupted", "");
        return true;
    }

    public static void main(String[] arguments) throws IOException {
        JavaKernel kernel = new JavaKernel(arguments[1]);
        Thread interrupts = new Thread(() -> kernel.takeInterrupts(arguments[2]), "interrupts");
        interrupts.setDaemon(true);
        interrupts.start();
        kernel.say("{\"ready\":true}");
        BufferedReader commands = new BufferedReader(
                new InputStreamReader(new FileInputStream(arguments[0]), StandardCharsets.UTF_8));
        for (String line; (line = commands.readLine()) != null; ) {
            kernel.handle(new Json(line).object());
        }
    }

    @SuppressWarnings("unchecked")
    private void handle(Map<String, Object> command) throws IOException {
        Map<String, String> wanted = (Map<String, String>) (Map<?, ?>) command.get("globals");
        Map<String, String> call = (Map<String, String>) (Map<?, ?>) command.get("call");
        for (String name : globals.keySet()) {
            if (!wanted.containsKey(name)) System.clearProperty(name);
        }
        wanted.forEach(System::setProperty);
        globals = wanted;
        call.forEach(System::setProperty);
        running = ++calls;
        run((String) command.get("code"));
        running = 0;
        System.out.flush();
        System.err.flush();
        for (String name : call.keySet()) {
            if (globals.containsKey(name)) System.setProperty(name, globals.get(name));
            else System.clearProperty(name);
        }
        say("{\"done\":true}");
    }

    private void run(String code) throws IOException {
        String rest = code;
        SnippetEvent last = null;
        while (!rest.isBlank()) {
            if (wasStopped()) return;
            SourceCodeAnalysis.CompletionInfo info = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            boolean whole = info.completeness().isComplete();
            String source = whole && !info.source().isEmpty() ? info.source() : rest;
            rest = whole ? info.remaining() : "";
            for (SnippetEvent event : shell.eval(source)) {
                if (event.causeSnippet() != null) continue;
                if (!good(event)) return;
                last = event;
            }
        }
        if (last == null || last.value() == null || last.value().isEmpty()) return;
        boolean shown = last.snippet().kind() == Snippet.Kind.EXPRESSION
                || last.snippet().subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
        if (shown && !last.value().equals("null"))
            say("{\"result\":{\"text/plain\":" + quote(last.value()) + "},\"main\":true}");
    }

    // False when this piece failed, which the client is then told.
    private boolean good(SnippetEvent event) throws IOException {
        if (wasStopped()) return false;
        JShellException thrown = event.exception();
        if (thrown != null) {
            StringWriter trace = new StringWriter();
            thrown.printStackTrace(new PrintWriter(trace));
            String name = thrown instanceof EvalException ? ((EvalException) thrown).getExceptionClassName()
                    : thrown.getClass().getName();
            error(name, String.valueOf(thrown.getMessage()), trace.toString());
            return false;
        }
        if (event.status() != Snippet.Status.REJECTED) return true;
        List<String> reasons = new ArrayList<>();
        for (Diag problem : shell.diagnostics(event.snippet()).toList()) reasons.add(problem.getMessage(null));
        error("CompileError", String.join("\n", reasons), event.snippet().source());
        return false;
    }

    private void error(String name, String value, String trace) throws IOException {
        say("{\"error\":{\"name\":" + quote(name) + ",\"value\":" + quote(value) + ",\"traceback\":" + quote(trace) + "}}");
    }

    private void say(String event) throws IOException {
        events.write((event + "\n").getBytes(StandardCharsets.UTF_8));
        events.flush();
    }

    private static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (int i = 0; i < text.length(); ++i) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < 0x20 || Character.isSurrogate(c)) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }

    // The commands are made by the interpreter: objects of texts and of such objects.
    private static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Map<String, Object> object() {
            Map<String, Object> out = new LinkedHashMap<>();
            expect('{');
            while (text.charAt(at) != '}') {
                if (text.charAt(at) == ',') ++at;
                String key = string();
                expect(':');
                out.put(key, text.charAt(at) == '{' ? object() : string());
            }
            ++at;
            return out;
        }

        private String string() {
            expect('"');
            StringBuilder out = new StringBuilder();
            for (char c; (c = text.charAt(at++)) != '"'; ) out.append(c == '\\' ? escaped() : c);
            return out.toString();
        }

        private char escaped() {
            char c = text.charAt(at++);
            switch (c) {
                case 'n': return '\n';
                case 't': return '\t';
                case 'r': return '\r';
                case 'b': return '\b';
                case 'f': return '\f';
                case 'u':
                    at += 4;
                    return (char) Integer.parseInt(text.substring(at - 4, at), 16);
                default: return c;
            }
        }

        private void expect(char wanted) {
            if (text.charAt(at++) != wanted) throw new IllegalStateException("the command is not what it must be");
        }
    }
}
