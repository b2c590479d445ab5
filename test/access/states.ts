import type { Json } from '@token-vault/contracts';
import { must, type Cast } from './cast.ts';
import { card, type Hidden } from './hidden.ts';
import type { Twins } from './twins.ts';

const container = '/a/';
/** Public in both twins: a caller that deduplicates may find out whether it exists. */
export const publicNumber = '5555555555554444';
const minuteMs = 60_000;

export interface State {
  readonly isThere: boolean;
  readonly isLocked?: boolean;
  /** The cvc is not purged yet. */
  readonly hasCvc?: boolean;
  readonly container?: string;
}

/** States of a token, by id. */
export const states: Readonly<Record<string, State>> = {
  live: { isThere: true, hasCvc: true },
  patched: { isThere: true, hasCvc: true },
  deduplicated: { isThere: true, hasCvc: true },
  'moved here': { isThere: true, hasCvc: true },
  'moved away': { isThere: true, hasCvc: true, container: '/open/' },
  purged: { isThere: true },
  enlisted: { isThere: true, hasCvc: true, isLocked: true },
  uncommitted: { isThere: false, isLocked: true },
  'rolled back': { isThere: false },
  expired: { isThere: false },
  deleted: { isThere: false },
  'of another tenant': { isThere: false },
  never: { isThere: false },
};

export const containerOf = (id: string): string => states[id]?.container ?? container;
export const numberOf = (id: string, { number }: Hidden): string =>
  id === 'deduplicated' ? publicNumber : number;

/** A tenant with tokens, and its hidden data. */
export interface Filled {
  readonly cast: Cast;
  readonly hidden: Hidden;
}

function authorIn(twins: Twins, { cast, hidden }: Filled) {
  const ask = (operation: Parameters<typeof must>[2]['operation'], of: object = {}) =>
    must(twins, cast.author, { operation, ...of });
  const create = (id: string, more: object = {}, options: object = {}) => {
    const data = card(numberOf(id, hidden), hidden.cvc);
    return ask('createToken', {
      body: { id, type: 'card', data, containers: [container], ...more },
      ...options,
    });
  };
  const patch = (id: string, body: object, options: object = {}) =>
    ask('updateToken', { params: { id }, body, ...options });
  return { ask, create, patch };
}

async function transactionOf(ask: ReturnType<typeof authorIn>['ask']): Promise<{ transactionId: Json }> {
  return { transactionId: (await ask('createTransaction'))['id'] ?? null };
}

async function fillOne(twins: Twins, filled: Filled): Promise<void> {
  const { ask, create, patch } = authorIn(twins, filled);
  for (const id of ['live', 'patched', 'deleted', 'enlisted', 'moved away']) await create(id);
  await create('moved here', { containers: ['/open/'] });
  await create('deduplicated', { deduplicate_token: true });
  await create('again', { data: card(publicNumber, '321'), deduplicate_token: true });
  await patch('patched', { metadata: { k: 'v' } });
  await patch('moved here', { containers: [container] });
  await patch('moved away', { containers: ['/open/'] });
  await ask('deleteToken', { params: { id: 'deleted' } });
  const dropped = await transactionOf(ask);
  await create('rolled back', {}, dropped);
  await ask('rollbackTransaction', { params: { id: dropped.transactionId } });
  const open = await transactionOf(ask);
  await create('uncommitted', {}, open);
  await patch('enlisted', { metadata: { k: 'v' } }, open);
}

/** Makes one token of each state in each tenant. */
export async function fill(twins: Twins, tenants: readonly Filled[], other: Filled): Promise<void> {
  const expires_at = new Date(twins.clock.now().getTime() + 30 * minuteMs).toISOString();
  await Promise.all(
    tenants.map(async (each) => {
      const { create } = authorIn(twins, each);
      await create('purged');
      await create('expired', { expires_at });
    }),
  );
  twins.clock.advance(61 * minuteMs);
  await authorIn(twins, other).create('of another tenant');
  await Promise.all(tenants.map((each) => fillOne(twins, each)));
}
