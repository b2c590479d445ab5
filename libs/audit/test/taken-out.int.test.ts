import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { newId, streams } from '@token-vault/contracts';
import type { StoredEvent } from '@token-vault/event-store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { readCheckpoints, writeCheckpoints } from '../src/checkpoints-file.ts';
import { KnownCheckpoints } from '../src/known-checkpoints.ts';
import { sealLogOnce } from '../src/seal-regularly.ts';
import { sealLog } from '../src/sealer.ts';
import { notFollowing } from '../src/stretch.ts';
import { verifyTenantAudit } from '../src/verify-tenant.ts';
import { verifyAudit } from '../src/verify.ts';
import { olderForm, openAuditLog, updateOf, type AuditLog, type LogKind } from './audit-log.ts';

const [first, second] = [
  '00000000-0000-4000-8000-000000000001',
  '00000000-0000-4000-8000-000000000002',
] as const;

describe.each<LogKind>(['Postgres', 'EventStoreDB'])(
  'a log in %s whose checkpoints were taken out',
  (kind) => {
    let log: AuditLog;
    let refused: string[];
    /** Of the process that seals. */
    let known: KnownCheckpoints;

    beforeEach(async () => {
      log = await openAuditLog(kind, [first, second]);
      refused = [];
      known = new KnownCheckpoints();
    });
    afterEach(() => log.end());

    async function write(name: string, ...tenants: readonly string[]): Promise<void> {
      for (const tenantId of tenants)
        await log.store.append(streams.tenant(tenantId), [updateOf(tenantId, name)], 'any');
    }

    const seal = (memory: KnownCheckpoints | undefined = known) =>
      sealLog({ ...log.sealer, known: memory, onRefused: (tenantId) => refused.push(tenantId) });
    /** Once the lock of the call before is free, which ends with its connection. */
    const sealOnce = (checkpointsFile: string, memory = new KnownCheckpoints()): Promise<number> => {
      const onRefused = (tenantId: string) => refused.push(tenantId);
      const options = { ...log.sealer, pool: log.pool, checkpointsFile, known: memory, onRefused };
      return vi
        .waitUntil(async () => {
          const signed = await sealLogOnce(options);
          return signed === undefined ? undefined : { signed };
        })
        .then(({ signed }) => signed);
    };
    const problems = async (...noted: readonly KnownCheckpoints[]) =>
      (await verifyAudit({ ...log, known: noted })).findings.map(
        ({ tenantId, problem }) => `${tenantId}: ${problem}`,
      );

    /** Alters "stolen" in an event of the first tenant, and makes its checkpoints from `revision` on ordinary events: no position is left free. */
    async function alter(revision = 1): Promise<void> {
      let events = 0;
      const toOrdinary = (event: StoredEvent): StoredEvent => {
        if (event.stream === streams.audit(first) && event.revision >= revision)
          return {
            ...event,
            stream: `transactions-${first}`,
            revision: events++,
            type: 'TransactionCounted',
            data: '{}',
          };
        return { ...event, data: event.data.replace('stolen', 'nothing') };
      };
      await log.rewrite((await log.read()).map(toOrdinary));
    }

    /** Three checkpoints of the first tenant; the second one covers the event that is altered later. */
    async function sealThrice(between: () => Promise<unknown> = () => Promise.resolve()): Promise<void> {
      for (const name of ['before', 'stolen', 'after']) {
        await write(name, first);
        await seal();
        await between();
      }
    }

    it('is not signed anew by the process that signed them, which goes on for other tenants', async () => {
      await sealThrice();
      await alter();
      await write('later', first, second);
      expect(await seal()).toBe(1);
      expect(await seal()).toBe(0);
      expect(refused).toEqual([first, first]);
      await write('later still', second);
      await seal();
      expect(await problems()).toEqual([
        expect.stringMatching(`^${first}: 5 events from here on lack their checkpoint$`),
      ]);
    });

    it('is not signed anew by a process that saw them', async () => {
      const successor = new KnownCheckpoints();
      await seal(successor);
      await sealThrice(() => write('of the other tenant', second));
      await seal(successor);
      await alter();
      expect(await seal(successor)).toBe(0);
      expect(refused).toEqual([first]);
    });

    it('is not signed anew after others took its place: another process has signed it already', async () => {
      await sealThrice();
      await alter();
      for (const name of ['a', 'b', 'c']) {
        await seal(new KnownCheckpoints());
        await write(name, first);
      }
      expect(await seal()).toBe(0);
      expect(refused).toEqual([first]);
      expect(await problems(known)).toEqual([
        expect.stringMatching(/revision 2\) was taken out or replaced$/),
      ]);
    });

    /** Appends a copy of a checkpoint of the first tenant, as a writer of the database can. */
    async function copyToEnd(revision: number): Promise<void> {
      const events = await log.read();
      const own = events.filter(({ stream }) => stream === streams.audit(first));
      await write('later', second);
      const place = (await log.read()).at(-1)?.position;
      const again = { ...own[revision], revision: own.length, id: newId(), position: place } as StoredEvent;
      await log.rewrite([...events, again]);
      await write('later', first);
    }

    it.each([
      ['an older checkpoint', 1, 'the checkpoint is not signed by its tenant'],
      ['the newest checkpoint', 2, 'the checkpoint is not signed by its tenant'],
      ['an older checkpoint of an older release', 1, notFollowing],
      ['the newest checkpoint of an older release', 2, notFollowing],
    ])('is not signed behind a copy of %s, which is named', async (_what, revision, problem) => {
      await sealThrice();
      const older = await olderForm(log, first);
      if (problem === notFollowing)
        await log.rewrite(
          (await log.read()).map((event) => (event.stream === streams.audit(first) ? older(event) : event)),
        );
      const from = (await log.read()).findLast(({ type }) => type === 'TenantUpdated')?.position;
      await copyToEnd(revision);
      for (const memory of [known, new KnownCheckpoints()]) expect(await seal(memory)).toBe(0);
      expect(refused).toEqual([first, first]);
      const copy = (await log.read()).findLast(({ stream }) => stream === streams.audit(first))?.position;
      const named = [{ position: copy, problem }];
      expect((await verifyAudit(log)).findings).toEqual([{ ...named[0], tenantId: first }]);
      expect((await verifyAudit({ ...log, from })).findings).toEqual([{ ...named[0], tenantId: first }]);
      const own = { ...log, tenantId: first, mostEvents: 1_000 };
      expect((await verifyTenantAudit(own)).findings).toEqual(named);
    });

    it('is not signed behind an event that is no checkpoint, which is named; others are', async () => {
      await sealThrice();
      await log.store.append(streams.audit(first), [updateOf(first, 'planted')], 'any');
      await write('later', first, second);
      for (const memory of [known, new KnownCheckpoints()]) await seal(memory);
      expect(refused).toEqual([first, first]);
      expect(await problems()).toEqual([expect.stringMatching(/revision 3, is no checkpoint$/)]);
    });

    it('is signed as it is by a process that knows nothing; only what was noted elsewhere shows it', async () => {
      await sealThrice();
      const { last } = await verifyAudit(log);
      await alter();
      expect(await seal(new KnownCheckpoints())).toBe(1);
      expect(await problems()).toEqual([]);
      expect(await problems(last)).toEqual([expect.stringContaining('was taken out or replaced')]);
    });

    it('is complete again when the operator lets it be sealed as a whole', async () => {
      await sealThrice();
      await alter();
      for (const name of ['later', 'later still']) {
        await write(name, first, second);
        await seal();
      }
      expect(await problems()).toHaveLength(1);
      expect(await sealLog({ ...log.sealer, isWhole: true })).toBe(1);
      expect(await problems()).toEqual([]);
    });

    describe('beside a file', () => {
      let directory: string;
      let file: string;
      beforeEach(async () => {
        directory = await mkdtemp(path.join(tmpdir(), 'token-vault-checkpoints-'));
        file = path.join(directory, 'last-checkpoints');
      });
      afterEach(() => rm(directory, { recursive: true }));

      it('is not signed anew after a restart', async () => {
        for (const name of ['before', 'stolen', 'after']) {
          await write(name, first, second);
          await sealOnce(file);
        }
        await alter();
        expect(await sealOnce(file)).toBe(0);
        expect(refused).toEqual([first]);
        const kept = await readCheckpoints(file);
        expect([...kept].map(([tenantId, { revision }]) => [tenantId, revision])).toEqual([[first, 2], [second, 2]]); // prettier-ignore
        expect(await problems(kept)).toContainEqual(expect.stringContaining('was taken out or replaced'));
      });

      it('keeps what another process wrote into it meanwhile', async () => {
        await write('before', first);
        await sealOnce(file);
        const old = await readFile(file);
        await write('stolen', first);
        await seal();
        await writeFile(file, old);
        await write('of the other tenant', second);
        await sealOnce(file, known);
        expect([...(await readCheckpoints(file))].map(([, { revision }]) => revision)).toEqual([1, 0]);
      });

      it('that cannot be read is not sealed', async () => {
        await writeCheckpoints(file, known);
        await writeFile(file, 'nonsense\n');
        await write('before', first);
        await expect(sealOnce(file)).rejects.toThrow('line 1 names no checkpoint');
      });
    });
  },
);
