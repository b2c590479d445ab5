// The load: a process of its own. Reads one job as JSON from its first argument, prints the latencies' summary as JSON.
import { Connection } from './connection.ts';
import type { Job, Summary } from './job.ts';
import { nextRequest } from './requests.ts';

const job = JSON.parse(process.argv[2] ?? '{}') as Job;

const latencies: number[] = [];
const ids: string[] = [];
let failures = 0;
const startedAt = performance.now();
const endsAt = startedAt + job.seconds * 1000;

async function client(): Promise<void> {
  let connection = await Connection.open(job.port, job.ca);
  while (performance.now() < endsAt) {
    const begun = performance.now();
    const reply = await connection.request(nextRequest(job)).catch(() => undefined);
    latencies.push(performance.now() - begun);
    if (!reply) {
      failures += 1;
      connection = await Connection.open(job.port, job.ca);
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
