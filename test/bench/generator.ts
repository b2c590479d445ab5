// The load: a process of its own. Reads one job as JSON from its first argument, prints the latencies' summary as JSON.
import { Connection, requestBytes } from './connection.ts';
import type { Job, Summary } from './job.ts';

const job = JSON.parse(process.argv[2] ?? '{}') as Job;

const digits = (count: number): string =>
  Array.from({ length: count }, () => Math.floor(Math.random() * 10)).join('');

/** A Luhn-valid number, so that every card differs. */
function cardNumber(): string {
  const body = `4${digits(14)}`;
  let sum = 0;
  for (let index = 0; index < 15; index += 1) {
    const digit = Number(body[14 - index]);
    sum += index % 2 === 0 ? (digit > 4 ? digit * 2 - 9 : digit * 2) : digit;
  }
  return `${body}${(10 - (sum % 10)) % 10}`;
}

const createRequest = () =>
  requestBytes('POST', '/tokens', job.key, {
    type: 'card',
    data: { number: cardNumber(), expiration_month: 12, expiration_year: 2031, cvc: '123' },
    metadata: { order: digits(8) },
  });

const anyId = () => job.ids[Math.floor(Math.random() * job.ids.length)] ?? '';
const readRequest = () => requestBytes('GET', `/tokens/${anyId()}`, job.key);
const reactRequest = () =>
  requestBytes('POST', `/reactors/${job.reactorId ?? ''}/react`, job.key, {
    args: { card: `{{ ${anyId()} }}` },
  });

const listRequest = () => requestBytes('GET', '/tokens?size=20', job.key);

const requests: Record<Job['kind'], () => string> = {
  create: createRequest,
  read: readRequest,
  mixed: () => (Math.random() < 0.9 ? readRequest() : createRequest()),
  list: listRequest,
  react: reactRequest,
};

const latencies: number[] = [];
const ids: string[] = [];
let failures = 0;
const startedAt = performance.now();
const endsAt = startedAt + job.seconds * 1000;

async function client(): Promise<void> {
  let connection = await Connection.open(job.port);
  while (performance.now() < endsAt) {
    const begun = performance.now();
    const reply = await connection.request(requests[job.kind]()).catch(() => undefined);
    latencies.push(performance.now() - begun);
    if (!reply) {
      failures += 1;
      connection = await Connection.open(job.port);
      continue;
    }
    if (reply.status >= 300) failures += 1;
    else if (job.kind === 'create' && ids.length < 5000)
      ids.push((JSON.parse(reply.body) as { id: string }).id);
  }
  connection.close();
}

await Promise.all(Array.from({ length: job.connections }, client));
const seconds = (performance.now() - startedAt) / 1000;
const sorted = latencies.sort((left, right) => left - right);
const at = (share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
const { user, system } = process.cpuUsage();
const summary: Summary = {
  requests: sorted.length,
  perSecond: sorted.length / seconds,
  p50Ms: at(0.5),
  p99Ms: at(0.99),
  failures,
  ids,
  cpuSeconds: (user + system) / 1e6,
};
process.stdout.write(JSON.stringify(summary), () => process.exit(0));
