import { aliased, streams } from '@token-vault/contracts';
import { comparePositions } from '@token-vault/event-store';
import { errorFields } from '@token-vault/observability';
import { readCheckpoints } from '@token-vault/read-models';
import { setTimeout as delay } from 'node:timers/promises';
import { load } from '../aggregates/decider.ts';
import { tenantDecider } from '../tenants/decider.ts';
import { createTransactionOutcomes } from '../transactions/outcomes.ts';
import { tenantsToSign, type SigningDependencies } from './sign-grants.ts';
import { signInvocation, signReactor, signToken, type SigningWork } from './sign-record.ts';

const pageSize = 500;
const atOnce = 32;

const t = aliased('tokens', 'token', 't');
const r = aliased('reactors', 'reactor', 'r');

interface Listed {
  readonly source: string;
  readonly tenant_id: string;
  readonly id: string;
}

const list = ({ source, tenant_id, id }: Listed, idType: 'text' | 'uuid', condition: string): string =>
  `select ${id} from ${source} where ${condition} and ${tenant_id} = $1 and ${id} > $2::${idType}
    order by ${id} limit ${pageSize}`;

/**
 * The kinds of records that are signed while the vault serves. The read models list the records; that of invocations
 * lists only unfinished ones.
 */
const kinds = [
  { rows: list(t, 'text', `${t.signature} is null`), type: 'text', sign: signToken },
  { rows: list(r, 'uuid', `${r.signature} is null`), type: 'uuid', sign: signReactor },
  ...(['waiting', 'running', 'delivery'] as const).map((table) => ({
    rows: list(aliased('invocations', table, 'i'), 'uuid', 'true'),
    type: 'uuid',
    sign: signInvocation,
  })),
] as const;
/** Read models that list the records, and read models that authentication reads: their rows without a signature are refused from then on, too. */
const readModels = ['tokens', 'reactors', 'invocations', 'tenants', 'applications'];

/** Sorts before every text and before every UUID. */
const first = { text: '', uuid: '00000000-0000-0000-0000-000000000000' } as const;

/** Gives whether the read models have applied the whole log as it was when this function was called. */
async function areCaughtUp({ pool, store }: SigningDependencies, signal: AbortSignal): Promise<boolean> {
  const head = await store.head();
  for (let attempt = 0; attempt < 50 && !signal.aborted; attempt += 1) {
    const { checkpoints } = await readCheckpoints(pool);
    const isThere = readModels.every((name) => {
      const checkpoint = checkpoints.get(name);
      return checkpoint?.status === 'live' && comparePositions(checkpoint.position, head) >= 0;
    });
    if (isThere) return true;
    await delay(100, undefined, { signal }).catch(() => undefined);
  }
  return false;
}

/** Whether every record of the kind is signed. */
async function signAll(
  work: SigningWork,
  tenantId: string,
  { rows: statement, type, sign }: (typeof kinds)[number],
): Promise<boolean> {
  let areAllSigned = true;
  for (let after: string = first[type as keyof typeof first]; ;) {
    const { rows } = await work.pool.query<{ id: string }>(statement, [tenantId, after]);
    for (let at = 0; at < rows.length; at += atOnce) {
      if (work.signal.aborted) return false;
      const signed = await Promise.all(rows.slice(at, at + atOnce).map(({ id }) => sign(work, tenantId, id)));
      if (signed.includes('later')) areAllSigned = false;
    }
    const last = rows.at(-1);
    if (!last) return areAllSigned;
    after = last.id;
  }
}

async function signRecordsOf(work: SigningWork, tenantId: string): Promise<boolean> {
  const { state } = await load(work.store, streams.tenant(tenantId), tenantDecider);
  if (state.kind !== 'active' || !state.details.wasSigned) return false;
  let areAllSigned = true;
  for (const kind of kinds) if (!(await signAll(work, tenantId, kind))) areAllSigned = false;
  return areAllSigned;
}

/**
 * Signs the tokens, reactors and invocations of an older release while the vault serves. Records of the tenant without
 * a signature are refused when a round began with complete read models, left no record unsigned, and the read models
 * have the signatures too: queries check the rows. Gives the number of finished tenants.
 */
export async function signRecords(dependencies: SigningDependencies, signal: AbortSignal): Promise<number> {
  const { keyRing, store, clock, logger } = dependencies;
  const tenants = await tenantsToSign(dependencies);
  if (tenants.length === 0) return 0;
  const isCaughtUp = () => areCaughtUp(dependencies, signal);
  const listsWereComplete = await isCaughtUp();
  const work = { ...dependencies, outcomes: createTransactionOutcomes(store, clock), signal };
  let done = 0;
  for (const tenantId of tenants) {
    if (signal.aborted) break;
    try {
      if (!(await signRecordsOf(work, tenantId)) || !listsWereComplete || !(await isCaughtUp())) continue;
      await keyRing.refuseUnsigned(tenantId);
      logger.info({ tenant_id: tenantId, task: 'upgrade' }, 'the records of an older release are signed');
      done += 1;
    } catch (error) {
      // The failure of one tenant does not delay the others.
      logger.warn({ ...errorFields(error), tenant_id: tenantId, task: 'upgrade' }, 'records were not signed');
    }
  }
  return done;
}
