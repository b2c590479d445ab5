import type { Json } from '@token-vault/contracts';
import type { Asked } from './asked.ts';
import { card, type Hidden } from './hidden.ts';

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

/** A tenant to fill. `ask` asks as a caller that sees every token. It throws when the vault refuses. */
export interface Tenant {
  readonly ask: (asked: Asked) => Promise<Readonly<Record<string, Json>>>;
  readonly hidden: Hidden;
}

function authorIn({ ask, hidden }: Tenant) {
  const create = (id: string, more: object = {}, options: object = {}) => {
    const data = card(numberOf(id, hidden), hidden.cvc);
    const body = { id, type: 'card', data, containers: [container], ...more };
    return ask({ operation: 'createToken', body, ...options });
  };
  const patch = (id: string, body: object, options: object = {}) =>
    ask({ operation: 'updateToken', params: { id }, body, ...options });
  return { ask, create, patch };
}

async function transactionOf(ask: Tenant['ask']): Promise<{ readonly transactionId: string }> {
  const { id } = (await ask({ operation: 'createTransaction' })) as { readonly id: string };
  return { transactionId: id };
}

async function fillOne(tenant: Tenant): Promise<void> {
  const { ask, create, patch } = authorIn(tenant);
  for (const id of ['live', 'patched', 'deleted', 'enlisted', 'moved away']) await create(id);
  await create('moved here', { containers: ['/open/'] });
  await create('deduplicated', { deduplicate_token: true });
  await create('again', { data: card(publicNumber, '321'), deduplicate_token: true });
  await patch('patched', { metadata: { k: 'v' } });
  await patch('moved here', { containers: [container] });
  await patch('moved away', { containers: ['/open/'] });
  await ask({ operation: 'deleteToken', params: { id: 'deleted' } });
  const dropped = await transactionOf(ask);
  await create('rolled back', {}, dropped);
  await ask({ operation: 'rollbackTransaction', params: { id: dropped.transactionId } });
  const open = await transactionOf(ask);
  await create('uncommitted', {}, open);
  await patch('enlisted', { metadata: { k: 'v' } }, open);
}

/** Makes the token that callers of other tenants must not find. */
export const fillOther = async (tenant: Tenant): Promise<void> =>
  void (await authorIn(tenant).create('of another tenant'));

interface MovedClock {
  now(): Date;
  advance(ms: number): void | Promise<void>;
}

/** Makes one token of each other state in each tenant. Moves the clock by an hour. */
export async function fill(clock: MovedClock, tenants: readonly Tenant[]): Promise<void> {
  const expires_at = new Date(clock.now().getTime() + 30 * minuteMs).toISOString();
  await Promise.all(
    tenants.map(async (each) => {
      const { create } = authorIn(each);
      await create('purged');
      await create('expired', { expires_at });
    }),
  );
  await clock.advance(61 * minuteMs);
  await Promise.all(tenants.map(fillOne));
}
