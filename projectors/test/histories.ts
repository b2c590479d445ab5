import fc from 'fast-check';
import type { VaultEvent } from '@token-vault/contracts';
import { event, otherTenantId, sealed, tenantId, tokenCreated, tokenUpdated } from './events.ts';

const applicationIds = ['1', '2'].map((digit) => `00000000-0000-4000-8000-00000000000${digit}`);
const transactionIds = ['8', '9'].map((digit) => `00000000-0000-4000-8000-00000000000${digit}`);

const content = fc.record({
  token_type: fc.constantFrom('token', 'card', 'bank'),
  containers: fc.constantFrom('/a/', '/a/b/', '/c/').map((container) => [container]),
  metadata: fc.dictionary(fc.constantFrom('Color', 'size'), fc.string({ maxLength: 8 })),
  index_hashes: fc.array(fc.constantFrom('h1', 'h2', 'h3'), { maxLength: 3 }),
  mask: fc.jsonValue({ maxDepth: 1 }) as fc.Arbitrary<null>,
});

const step = fc.record({
  what: fc.constantFrom(
    ...(['token', 'token', 'token', 'delete', 'purge', 'application', 'end', 'reactor'] as const),
    ...(['commit', 'rollback', 'session', 'tenant', 'read'] as const),
  ),
  token: fc.constantFrom('t1', 't2', 't3'),
  entity: fc.constantFrom(0, 1),
  transaction: fc.constantFrom(undefined, undefined, 0, 1),
  tenant: fc.constantFrom(tenantId, tenantId, tenantId, otherTenantId),
  content,
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

/**
 * Turns random steps into a history that deciders would allow: it creates only absent entities and changes only
 * existing ones.
 */
class Historian {
  readonly events: VaultEvent[] = [];
  #there = new Set<string>();
  /** A token written by an open transaction is locked. The transaction's writes count at its commit. */
  #locks = new Map<string, { transaction: string; isThere: boolean }>();
  #closed = new Set<string>();
  #serial = 0;

  add(wish: Step): void {
    const { what, entity, tenant } = wish;
    const metadata = { tenant_id: tenant };
    const id = applicationIds[entity] as string;
    switch (what) {
      case 'token':
      case 'delete':
      case 'purge':
        return this.#changeToken(wish);
      case 'application':
        return this.#changeApplication(id);
      case 'end':
        if (this.#there.delete(`application ${id}`))
          this.events.push(
            event(entity ? 'ApplicationDeleted' : 'ApplicationExpired', { application_id: id }),
          );
        return;
      case 'session':
        this.events.push(
          event('SessionOpened', {
            session_id: `00000000-0000-4000-8001-${this.#hash().slice(-12)}`,
            application_id: id,
            key_hash: this.#hash(),
            nonce_hash: this.#hash(),
            expires_at: '2030-01-01T11:00:00Z',
          }),
        );
        return;
      case 'reactor':
        this.#changeReactor(id);
        return this.#changeProxy(id);
      case 'commit':
      case 'rollback':
        return this.#close(transactionIds[entity] as string, what === 'commit');
      case 'tenant':
        return this.#deleteTenant(tenant);
      case 'read':
        this.events.push(
          event('EntitiesRead', { entity_type: 'log', operation: 'list', entity_ids: [] }, metadata),
        );
        return;
    }
  }

  #changeToken({ what, token, transaction, tenant, content: wished }: Step): void {
    const key = `${tenant} ${token}`;
    const transactionId = transaction === undefined ? undefined : transactionIds[transaction];
    const lock = this.#locks.get(key);
    if (lock && lock.transaction !== transactionId) return;
    if (transactionId !== undefined && this.#closed.has(transactionId)) return;
    const isThere = lock ? lock.isThere : this.#there.has(key);
    const metadata = {
      tenant_id: tenant,
      ...(transactionId !== undefined && { transaction_id: transactionId }),
    };
    const ended = { token_id: token, token_type: 'token', key_ids: [] };
    if (what === 'token') this.events.push((isThere ? tokenUpdated : tokenCreated)(token, wished, metadata));
    else if (!isThere) return;
    else this.events.push(event(what === 'purge' ? 'TokenCvcPurged' : 'TokenDeleted', ended, metadata));
    const isThereNow = what !== 'delete';
    if (transactionId !== undefined)
      this.#locks.set(key, { transaction: transactionId, isThere: isThereNow });
    else if (isThereNow) this.#there.add(key);
    else this.#there.delete(key);
  }

  #changeApplication(id: string): void {
    const granted = { permissions: [], rules: [] };
    if (!this.#there.has(`application ${id}`)) {
      this.#there.add(`application ${id}`);
      const created = {
        application_id: id,
        name: 'A',
        type: 'private' as const,
        key_hash: this.#hash(),
        ...granted,
      };
      this.events.push(event('ApplicationCreated', created));
    } else if (this.#serial++ % 2 === 0) {
      this.events.push(event('ApplicationKeyRegenerated', { application_id: id, key_hash: this.#hash() }));
    } else {
      this.events.push(
        event('ApplicationUpdated', { application_id: id, name: `B${this.#serial}`, ...granted }),
      );
    }
  }

  #changeReactor(id: string): void {
    const key = `reactor ${id}`;
    const content = { reactor_id: id, name: `R${this.#serial}`, code: '', configuration: sealed('c') };
    if (!this.#there.has(key)) this.events.push(event('ReactorCreated', content));
    else if (this.#serial % 3 === 0)
      this.events.push(event('ReactorDeleted', { reactor_id: id, key_ids: [] }));
    else this.events.push(event('ReactorUpdated', content));
    if (this.events.at(-1)?.type === 'ReactorDeleted') this.#there.delete(key);
    else this.#there.add(key);
    this.#serial++;
  }

  #changeProxy(id: string): void {
    const key = `proxy ${id}`;
    const signature = `m1.0.${'A'.repeat(22)}`;
    const content = {
      proxy_id: id,
      name: `P${this.#serial}`,
      destination: 'https://destination.example',
      destinations: [],
      require_auth: true,
      configuration: sealed('c'),
      signature,
    };
    const stored = { id, hash: String(this.#serial).padStart(64, '0'), created_at: '2030-01-01T11:00:00Z' };
    const changes = [
      event('ProxyUpdated', content),
      event('ProxyKeyAdded', { proxy_id: id, key_id: id, keys: [stored], signature }),
      event('ProxyKeyDeleted', { proxy_id: id, key_id: id, keys: [], signature }),
      event('ProxyDeleted', { proxy_id: id, key_ids: [] }),
    ];
    const next = this.#there.has(key)
      ? changes[this.#serial % changes.length]
      : event('ProxyCreated', content);
    if (next) this.events.push(next);
    if (next?.type === 'ProxyDeleted') this.#there.delete(key);
    else this.#there.add(key);
    this.#serial++;
  }

  #close(id: string, isCommit: boolean): void {
    if (this.#closed.has(id)) return;
    this.#closed.add(id);
    this.events.push(
      event(isCommit ? 'TransactionCommitted' : 'TransactionRolledBack', { transaction_id: id }),
    );
    for (const [key, lock] of this.#locks) {
      if (lock.transaction !== id) continue;
      this.#locks.delete(key);
      if (!isCommit) continue;
      if (lock.isThere) this.#there.add(key);
      else this.#there.delete(key);
    }
  }

  /** Only when no transaction is open, as in the vault. */
  #deleteTenant(tenant: string): void {
    if (this.#locks.size > 0) return;
    this.events.push(event('TenantDeleted', { tenant_id: tenant }, { tenant_id: tenant }));
    for (const key of this.#there) if (key.startsWith(tenant) || tenant === tenantId) this.#there.delete(key);
    if (tenant !== tenantId) return;
    for (const key of [...this.#there]) if (!key.startsWith(otherTenantId)) this.#there.delete(key);
  }

  #hash(): string {
    return String(++this.#serial).padStart(64, '0');
  }
}

/** Histories that keep the rules of the aggregates, with transactions interleaved. */
export const histories = fc.array(step, { maxLength: 40 }).map((wishes) => {
  const historian = new Historian();
  for (const wish of wishes) historian.add(wish);
  return historian.events;
});
