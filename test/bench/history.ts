import {
  eventRegistry,
  newId,
  streams,
  tokenStatementOf,
  type EventMetadata,
  type JsonObject,
  type NewEvent,
} from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';

/**
 * Shares of 1,000 commands. A transaction is three events. The log of a vault in use is mostly creations and reads.
 */
const mix = { create: 400, read: 430, update: 60, delete: 80, list: 10, refuse: 10, transact: 10 } as const;
type Command = keyof typeof mix;
const commands = Object.entries(mix).flatMap(([name, count]) => Array<Command>(count).fill(name as Command));

const sealedLength = 214;
const types = ['card', 'token', 'bank', 'social_security_number'];
const containers = ['/pci/high/', '/general/high/', '/bank/high/', '/pii/high/'];

export interface PlacedEvent extends NewEvent {
  readonly stream: string;
  readonly revision: number;
}

/** By tenant: the signer of its tokens. */
export type Signers = ReadonlyMap<string, Pick<TenantHashes, 'sign'>>;

interface Alive {
  readonly id: string;
  readonly type: string;
  readonly tenantId: string;
  readonly createdAt: string;
}

/**
 * The events of tenants that create, read, change and delete tokens at random within the rules of the aggregates.
 * Sealed values have the length of cards' and cannot be opened. Tokens are signed as the vault signs them. Only the
 * first events are validated, because all are made in the same way.
 */
export class History {
  readonly #signers: Signers;
  readonly #tenantIds: readonly string[];
  readonly #alive: Alive[] = [];
  readonly #revisions = new Map<string, number>();
  readonly #applicationId = newId();
  readonly #startedAt = Date.parse('2030-01-01T00:00:00Z');
  #state = 42;
  #count = 0;
  #made: PlacedEvent[] = [];

  constructor(signers: Signers) {
    this.#signers = signers;
    this.#tenantIds = [...signers.keys()];
  }

  /** The revisions of streams that continue. */
  get revisions(): ReadonlyMap<string, number> {
    return this.#revisions;
  }

  take(count: number): PlacedEvent[] {
    while (this.#made.length < count) this.#run(commands[this.#below(commands.length)] ?? 'read');
    const taken = this.#made.slice(0, count);
    this.#made = this.#made.slice(count);
    return taken;
  }

  /** Repeatable, so that two measurements have the same history. */
  #below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * limit);
  }

  #pick<Item>(items: readonly Item[]): Item {
    const item = items[this.#below(items.length)];
    if (item === undefined) throw new Error('there is nothing to pick');
    return item;
  }

  #run(command: Command): void {
    if (command === 'create' || this.#alive.length < 20) return this.#create();
    if (command === 'transact') return this.#transact();
    if (command === 'read') return this.#read('read', [this.#pick(this.#alive)]);
    if (command === 'list') return this.#list();
    if (command === 'refuse') return this.#refuse();
    const index = this.#below(this.#alive.length);
    const token = this.#alive[index];
    if (!token) return;
    const stream = streams.token(token.tenantId, token.id);
    if (command === 'update')
      return this.#add(stream, 'TokenUpdated', token.tenantId, this.#content(token, 'update'));
    this.#add(stream, 'TokenDeleted', token.tenantId, {
      token_id: token.id,
      token_type: token.type,
      key_ids: [newId(), newId()],
    });
    const last = this.#alive.pop();
    if (last && last !== token) this.#alive[index] = last;
  }

  /** The content of a token at the next revision of its stream. */
  #content({ tenantId, ...token }: Alive, change?: 'update'): JsonObject {
    const { id, type } = token;
    const hash = () => newId().replaceAll('-', '') + newId().replaceAll('-', '').slice(0, 11);
    const content = {
      data: `sv1.${newId()}.${'A'.repeat(sealedLength)}`,
      mask: '{{ data | reveal_last: 4 }}',
      containers: [this.#pick(containers)],
      metadata: { customer: `c-${this.#below(100_000)}`, color: this.#pick(['red', 'green', 'blue']) },
      ...(this.#below(2) === 0 && {
        search_indexes: ['{{ data.number }}', '{{ data.number | last4 }}'],
        index_hashes: [hash(), hash()],
        fingerprint: hash(),
        fingerprint_expression: '{{ data.number }}',
      }),
    };
    const revision = this.#nextOf(streams.token(tenantId, id));
    const modified = change && { modifiedBy: this.#applicationId, modifiedAt: this.#now() };
    const stated = tokenStatementOf({ ...token, content, createdBy: this.#applicationId, ...modified });
    const signature = this.#signers.get(tenantId)?.sign(stated, revision) ?? '';
    return { token_id: id, token_type: type, ...content, signature };
  }

  #create(transactionId?: string, of?: string): void {
    const tenantId = of ?? this.#pick(this.#tenantIds);
    const token = { id: newId(), type: this.#pick(types), tenantId, createdAt: this.#now() };
    const stream = streams.token(tenantId, token.id);
    this.#add(stream, 'TokenCreated', tenantId, this.#content(token), transactionId);
    this.#alive.push(token);
  }

  #transact(): void {
    const [tenantId, id] = [this.#pick(this.#tenantIds), newId()];
    const stream = streams.transaction(tenantId, id);
    const expires_at = new Date(this.#startedAt + 40_000_000_000).toISOString();
    this.#add(stream, 'TransactionOpened', tenantId, { transaction_id: id, expires_at });
    this.#create(id, tenantId);
    this.#add(stream, 'TransactionCommitted', tenantId, { transaction_id: id });
  }

  #read(operation: string, read: readonly Alive[]): void {
    const tenantId = read[0]?.tenantId ?? '';
    const tokens = read.map(({ id, type }) => ({ token_id: id, token_type: type, transform: 'mask' }));
    this.#addAccess('TokensRead', tenantId, { operation, tokens });
  }

  /** A page of twenty tokens. Their tenant makes no difference to a projection. */
  #list(): void {
    this.#read(
      'list',
      Array.from({ length: 20 }, () => this.#pick(this.#alive)),
    );
  }

  #refuse(): void {
    const data = { entity_type: 'token', permission: 'token:read', operation: 'read' };
    this.#addAccess('AccessDenied', this.#pick(this.#tenantIds), data);
  }

  #addAccess(type: string, tenantId: string, data: JsonObject): void {
    this.#add(streams.access(tenantId, this.#now().slice(0, 10)), type, tenantId, data);
  }

  /** 33 events a second, so a million events are eight hours. */
  #now(): string {
    return new Date(this.#startedAt + this.#count * 30).toISOString();
  }

  #nextOf(stream: string): number {
    return (this.#revisions.get(stream) ?? -1) + 1;
  }

  #add(stream: string, type: string, tenantId: string, data: JsonObject, transactionId?: string): void {
    const trace = newId().replaceAll('-', '');
    const metadata: EventMetadata = {
      tenant_id: tenantId,
      actor: { kind: 'application', id: this.#applicationId },
      trace_id: trace,
      correlation_id: trace,
      occurred_at: this.#now(),
      ...(transactionId !== undefined && { transaction_id: transactionId }),
    };
    const revision = this.#nextOf(stream);
    this.#revisions.set(stream, revision);
    const event = { id: newId(), type, version: eventRegistry.versionOf(type), data, metadata };
    if (this.#count++ < 2_000) eventRegistry.validate(event);
    this.#made.push({ ...event, stream, revision });
  }
}
