// One measurement in a process of its own, so that its memory can be measured. `node replay.ts <Work as JSON>` prints
// a Measurement.
import { eventRegistry } from '@token-vault/contracts';
import { createKeyRing, environmentRootKey } from '@token-vault/crypto';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { exportAudit, verifyAudit } from '@token-vault/audit';
import { createSignatureCheck } from '@token-vault/command-service';
import { createProjectionAdmin } from '@token-vault/projectors';
import { systemClock } from '@token-vault/operations';
import pg from 'pg';
import type { Measurement, Work } from './replay-work.ts';

const work = JSON.parse(process.argv[2] ?? '{}') as Work;
const connection = { connectionString: work.url };
const pool = new pg.Pool({ ...connection, max: 4 });
const store = createPostgresEventStore({ registry: eventRegistry, connection });
const admin = createProjectionAdmin({ store, connectionString: work.url });

let earlyMemory = 0;
const memory = (): number => process.resourceUsage().maxRSS / 1024;
/** The peak of the first fifth. If memory grew with the log, the peak of the whole would be far above it. */
function watch(position: string, until: string): void {
  if (Number(position) <= Number(until) / 5) earlyMemory = memory();
}

async function run(): Promise<void> {
  switch (work.kind) {
    case 'rebuild': {
      const outcome = await admin.rebuild(work.projection, { onProgress: watch });
      if (outcome !== 'swapped') throw new Error(`the rebuild of ${work.projection} was ${outcome}`);
      return;
    }
    case 'verify': {
      const verified = await admin.verify(work.projection, { onProgress: watch });
      if (!verified?.isEqual) throw new Error(`${work.projection} is not what the log gives`);
      return;
    }
    case 'audit verify': {
      const rootKey = environmentRootKey(work.rootKey);
      const keyRing = await createKeyRing({ pool, rootKey, clock: systemClock, durability: 'own' });
      const report = await verifyAudit({
        ...{ store, keyRing, onProgress: watch },
        checkSignatures: createSignatureCheck({ store, keyRing }),
      });
      if (report.findings.length > 0) throw new Error('the log is not what was signed');
      return;
    }
    case 'audit export': {
      const head = await store.head();
      for await (const line of exportAudit({ store, tenantId: work.tenantId, format: 'jsonl' }))
        if (earlyMemory === 0) watch((JSON.parse(line) as { position: string }).position, head);
    }
  }
}

const startedAt = performance.now();
await run();
const seconds = (performance.now() - startedAt) / 1_000;
const { user, system } = process.cpuUsage();
const measurement: Measurement = {
  events: Number(await store.head()),
  seconds,
  cpuSeconds: (user + system) / 1e6,
  earlyMemoryMb: earlyMemory,
  peakMemoryMb: memory(),
};
await store.close();
await pool.end();
process.stdout.write(JSON.stringify(measurement));
