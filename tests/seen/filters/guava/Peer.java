import com.google.common.hash.BloomFilter;
import com.google.common.hash.Funnel;
import com.google.common.hash.Funnels;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/**
 * Guava's own filter, at the other end. Keys come on standard input, one a line, in hexadecimal: bytes, or the UTF-16
 * code units of a string, big-endian.
 *
 * <pre>
 * put strings|bytes EXPECTED FPP FILE STRATEGY    write a filter that holds the keys
 * ask strings|bytes FILE                 for each key, 1 if it might be in FILE, else 0
 * size                                   for each line "EXPECTED FPP", a filter's head in hexadecimal
 * </pre>
 */
public class Peer {
    private static Object key(boolean strings, String line) {
        byte[] raw = HexFormat.of().parseHex(line);
        if (!strings) {
            return raw;
        }
        char[] units = new char[raw.length / 2];
        for (int i = 0; i < units.length; i++) {
            units[i] = (char) ((raw[2 * i] & 0xff) << 8 | raw[2 * i + 1] & 0xff);
        }
        return new String(units);
    }

    @SuppressWarnings("unchecked")
    private static Funnel<Object> funnel(boolean strings) {
        Funnel<?> made = strings ? Funnels.stringFunnel(StandardCharsets.UTF_8) : Funnels.byteArrayFunnel();
        return (Funnel<Object>) made;
    }

    /** Guava makes filters of its newest strategy only, and keeps the method that takes another one to itself. */
    @SuppressWarnings("unchecked")
    private static BloomFilter<Object> create(Funnel<Object> funnel, long expected, double fpp, String name)
            throws ReflectiveOperationException {
        for (Object strategy : Class.forName("com.google.common.hash.BloomFilterStrategies").getEnumConstants()) {
            if (strategy.toString().equals(name)) {
                for (Method method : BloomFilter.class.getDeclaredMethods()) {
                    Class<?>[] taken = method.getParameterTypes();
                    if (method.getName().equals("create") && taken.length == 4 && taken[1] == long.class) {
                        method.setAccessible(true);
                        return (BloomFilter<Object>) method.invoke(null, funnel, expected, fpp, strategy);
                    }
                }
            }
        }
        throw new NoSuchMethodException(name);
    }

    public static void main(String[] words) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder answers = new StringBuilder();
        boolean strings = words.length > 1 && words[1].equals("strings");
        switch (words[0]) {
            case "put" -> {
                long expected = Long.parseLong(words[2]);
                BloomFilter<Object> filter =
                        create(funnel(strings), expected, Double.parseDouble(words[3]), words[5]);
                lines.lines().forEach(line -> filter.put(key(strings, line)));
                try (OutputStream out = new FileOutputStream(words[4])) {
                    filter.writeTo(out);
                }
                answers.append(filter.expectedFpp()).append(' ').append(filter.approximateElementCount());
            }
            case "ask" -> {
                try (InputStream in = new FileInputStream(words[2])) {
                    BloomFilter<Object> filter = BloomFilter.readFrom(in, funnel(strings));
                    lines.lines().forEach(line -> answers.append(filter.mightContain(key(strings, line)) ? '1' : '0'));
                }
            }
            case "size" -> {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    String[] pair = line.split(" ");
                    BloomFilter<Object> filter =
                            BloomFilter.create(funnel(false), Long.parseLong(pair[0]), Double.parseDouble(pair[1]));
                    byte[] head = new byte[6];
                    filter.writeTo(new OutputStream() {
                        private int at = 0;

                        @Override
                        public void write(int value) {
                            if (at < head.length) {
                                head[at++] = (byte) value;
                            }
                        }

                        @Override
                        public void write(byte[] values, int from, int size) {
                            for (int i = 0; i < size && at < head.length; i++) {
                                write(values[from + i]);
                            }
                        }
                    });
                    answers.append(HexFormat.of().formatHex(head)).append('\n');
                }
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        System.out.println(answers);
    }
}
