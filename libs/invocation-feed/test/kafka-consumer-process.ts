import { createKafkaInvocationFeed } from '@token-vault/invocation-feed/kafka';

// A runner's process that the test kills: reports the delivered invocations, finishes half of them, and never ends by itself.

const [brokers = '', topic = '', groupId = ''] = process.argv.slice(2);
let count = 0;

const feed = createKafkaInvocationFeed({
  connection: { brokers: brokers.split(','), clientId: 'killed' },
  topic,
  groupId,
  sessionTimeoutMs: 3_000,
  heartbeatIntervalMs: 300,
  commitIntervalMs: 50,
  concurrency: 100,
  onDeadLetter: async () => undefined,
});

await feed.start(async ({ invocationId }) => {
  const isFinished = count++ % 2 === 0;
  process.stdout.write(`${invocationId} ${isFinished ? 'finished' : 'begun'}\n`);
  if (!isFinished) await new Promise(() => undefined);
}, new AbortController().signal);
