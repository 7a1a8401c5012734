import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.shade.org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.storm.shade.org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.storm.shade.org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Storm's side of the bench: sentences, split into words, upper-cased, each sentence tracked to its ack.
 *
 * <p>Argument: an empty folder. Each line of the input says how many sentences are to be emitted. When all of
 * them are acked a line "acked in SECONDS" is printed. Ends with its input.
 */
public class Words {
    static final AtomicLong TO_EMIT = new AtomicLong();
    static final LongAdder ACKED = new LongAdder();

    /** The sentences that Spark's side reads: ten words of a vocabulary of 5,000, drawn by the number. */
    static String sentence(long number) {
        StringBuilder text = new StringBuilder(60);
        long seed = number;
        for (int word = 0; word < 10; word++) {
            seed = seed * 6364136223846793005L + 1442695040888963407L;
            text.append(word == 0 ? "w" : " w").append((seed >>> 33) % 5000);
        }
        return text.toString();
    }

    public static class Sentences extends BaseRichSpout {
        private transient SpoutOutputCollector collector;
        private long number;

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void nextTuple() {
            if (TO_EMIT.get() == 0) {
                return;
            }
            TO_EMIT.decrementAndGet();
            number++;
            collector.emit(new Values(sentence(number)), number);
        }

        @Override
        public void ack(Object id) {
            ACKED.increment();
        }

        @Override
        public void fail(Object id) {
            throw new IllegalStateException("sentence " + id + " has failed");
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("sentence"));
        }
    }

    public static class Split extends BaseBasicBolt {
        @Override
        public void execute(Tuple input, BasicOutputCollector collector) {
            for (String word : input.getString(0).split(" ")) {
                collector.emit(new Values(word));
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    public static class Upper extends BaseBasicBolt {
        @Override
        public void execute(Tuple input, BasicOutputCollector collector) {
            collector.emit(new Values(input.getString(0).toUpperCase()));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    /** A ZooKeeper that listens on this machine alone; Storm's own would on all addresses. */
    static long zookeeper(File folder) throws Exception {
        ServerCnxnFactory factory = new NIOServerCnxnFactory();
        factory.configure(new InetSocketAddress("127.0.0.1", 0), 60);
        factory.startup(new ZooKeeperServer(folder, folder, 2000));
        return factory.getLocalPort();
    }

    public static void main(String[] arguments) throws Exception {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("sentences", new Sentences(), 1);
        builder.setBolt("split", new Split(), 2).shuffleGrouping("sentences");
        builder.setBolt("upper", new Upper(), 2).shuffleGrouping("split");
        Config config = new Config();
        config.setNumAckers(1);
        config.setMaxSpoutPending(500);
        LocalCluster cluster = new LocalCluster("127.0.0.1", zookeeper(new File(arguments[0])));
        cluster.submitTopology("words", config, builder.createTopology());
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = asked.readLine()) != null; ) {
            long count = Long.parseLong(line.trim()), goal = ACKED.sum() + count;
            long start = System.nanoTime();
            TO_EMIT.addAndGet(count);
            while (ACKED.sum() < goal) {
                Thread.sleep(1);
            }
            System.out.println("acked in " + (System.nanoTime() - start) / 1e9);
        }
        Runtime.getRuntime().halt(0); // Storm's threads would run on
    }
}
