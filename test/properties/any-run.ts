import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import {
  eventRegistry,
  newId,
  streams,
  type JsonObject,
  type Token,
  type VaultEvent,
  type VaultEventType,
} from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import type { ManualClock } from '@token-vault/test-support';
import fc from 'fast-check';
import { principalOf, type Call } from './command-world.ts';

const slot = fc.nat(4);
const two = fc.nat(1);
/** Undefined: outside a transaction. */
const transaction = fc.constantFrom(undefined, undefined, undefined, 0, 1);
const kind = <Kind extends string>(name: Kind) => fc.constant(name);

const steps = {
  create: fc.record({
    kind: kind('create'),
    slot,
    transaction,
    isCard: fc.boolean(),
    isExpiring: fc.boolean(),
    isFingerprinted: fc.boolean(),
    container: fc.constantFrom('/general/high/', '/x/', '/x/y/'),
    metadata: fc.dictionary(
      fc.constantFrom('k', 'Lé', '"\\'),
      fc.constantFrom('One', '\\u0000\n', 'e\u0301\u2028😀'),
      { maxKeys: 2 },
    ),
  }),
  patch: fc.record({ kind: kind('patch'), slot, transaction, value: fc.constantFrom('a', 'b', null) }),
  delete: fc.record({ kind: kind('delete'), slot, transaction }),
  open: fc.record({ kind: kind('open'), transaction: two }),
  close: fc.record({ kind: kind('close'), transaction: two, isCommit: fc.boolean() }),
  application: fc.record({
    kind: kind('application'),
    slot,
    isPublic: fc.boolean(),
    isExpiring: fc.boolean(),
  }),
  rename: fc.record({ kind: kind('rename'), slot }),
  regenerate: fc.record({ kind: kind('regenerate'), slot }),
  endApplication: fc.record({ kind: kind('endApplication'), slot }),
  session: fc.record({ kind: kind('session'), slot, isAuthorized: fc.boolean() }),
  reactor: fc.record({
    kind: kind('reactor'),
    slot: two,
    verb: fc.constantFrom('create', 'update', 'delete'),
  }),
  proxy: fc.record({
    kind: kind('proxy'),
    slot: two,
    verb: fc.constantFrom('create', 'update', 'key', 'delete'),
  }),
  invocation: fc.record({
    kind: kind('invocation'),
    ends: fc.constantFrom('not', 'well', 'badly', 'delivered'),
  }),
  read: fc.record({ kind: kind('read'), slot }),
  tenant: fc.record({ kind: kind('tenant') }),
  wait: fc.record({ kind: kind('wait'), hours: fc.integer({ min: 1, max: 3 }) }),
};
type Steps = {
  readonly [Kind in keyof typeof steps]: (typeof steps)[Kind] extends fc.Arbitrary<infer Value>
    ? Value
    : never;
};
export type AnyStep = Steps[keyof Steps];

const { create, patch, delete: remove, open, close, ...others } = steps;
/**
 * Steps that change a read model. Half of them are about tokens and transactions, which have the most complex rules.
 */
export const anyStep: fc.Arbitrary<AnyStep> = fc.oneof(
  { weight: 6, arbitrary: create },
  { weight: 3, arbitrary: patch },
  { weight: 3, arbitrary: remove },
  { weight: 3, arbitrary: open },
  { weight: 3, arbitrary: close },
  ...Object.values(others).map((arbitrary) => ({ weight: 1, arbitrary })),
);

export interface RunDependencies {
  readonly call: Call;
  readonly store: EventStore;
  readonly clock: ManualClock;
  /** Ends entities that are past their time. */
  readonly sweep: () => Promise<unknown>;
}

/** Takes any steps as one tenant. Steps that the product refuses are skipped: the test is about the resulting log. */
export class AnyRun {
  readonly #of: RunDependencies;
  readonly #principal: Principal;
  readonly #ids = new Map<string, string>();

  constructor(of: RunDependencies, tenantId: string) {
    this.#of = of;
    this.#principal = principalOf(tenantId);
  }

  #id(of: string): string {
    return this.#ids.get(of) ?? randomUUID();
  }

  async #call(
    id: Parameters<Call>[0],
    input: Parameters<Call>[2],
    transaction?: number,
    principal = this.#principal,
  ) {
    const transactionId = transaction === undefined ? undefined : this.#ids.get(`transaction${transaction}`);
    try {
      return await this.#of.call(id, principal, input, transactionId);
    } catch (error) {
      const { status = 500 } = error as { status?: number };
      if (status < 500) return undefined;
      throw error;
    }
  }

  /** Stores the id of a created entity under a name. */
  async #make(name: string, made: Promise<unknown>): Promise<void> {
    const id = ((await made) as { id: string } | undefined)?.id;
    if (id !== undefined) this.#ids.set(name, id);
  }

  #in(hours: number): string {
    return new Date(this.#of.clock.now().getTime() + hours * 3_600_000).toISOString();
  }

  async #create(of: Steps['create']): Promise<void> {
    const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2060, cvc: '123' };
    const body = {
      type: of.isCard ? 'card' : 'token',
      data: of.isCard ? card : { value: of.isFingerprinted ? 'same' : randomUUID() },
      containers: [of.container],
      metadata: of.metadata,
      ...(of.isExpiring && { expires_at: this.#in(2) }),
      ...(of.isFingerprinted && {
        fingerprint_expression: of.isCard ? '{{ data.number }}' : '{{ data.value }}',
        search_indexes: [of.isCard ? '{{ data.number }}' : '{{ data.value }}'],
        deduplicate_token: true,
      }),
    };
    const made = this.#call('createToken', { body }, of.transaction) as Promise<Token | undefined>;
    await this.#make(`token${of.slot}`, made);
  }

  async #session({ slot: of, isAuthorized }: Steps['session']): Promise<void> {
    const asPrivate = { ...this.#principal, keyHash: 'a'.repeat(64) };
    const asPublic = {
      ...asPrivate,
      applicationId: this.#id(`application${of}`),
      applicationType: 'public',
    } as const;
    const opened = (await this.#call('createSession', {}, undefined, asPublic)) as
      { nonce: string } | undefined;
    if (opened === undefined || !isAuthorized) return;
    const body = { nonce: opened.nonce, permissions: ['token:read'] };
    await this.#call('authorizeSession', { body }, undefined, asPrivate);
  }

  async #reactor({ slot: of, verb }: Steps['reactor']): Promise<void> {
    const body = {
      name: 'r',
      code: 'module.exports = async () => ({});',
      configuration: { k: randomUUID() },
    };
    const params = { id: this.#id(`reactor${of}`) };
    if (verb === 'create') await this.#make(`reactor${of}`, this.#call('createReactor', { body }));
    else if (verb === 'update') await this.#call('updateReactor', { params, body });
    else await this.#call('deleteReactor', { params });
  }

  async #proxy({ slot: of, verb }: Steps['proxy']): Promise<void> {
    const application = { id: this.#id(`application${of}`) };
    const body = {
      name: 'p',
      destination: 'https://destination.example',
      configuration: { k: randomUUID() },
    };
    const params = { id: this.#id(`proxy${of}`) };
    if (verb === 'create') await this.#make(`proxy${of}`, this.#call('createProxy', { body }));
    else if (verb === 'update') await this.#call('updateProxy', { params, body: { ...body, application } });
    else if (verb === 'key') await this.#call('createProxyKey', { params, body: {} });
    else await this.#call('deleteProxy', { params });
  }

  /** Appends the events without a runner, which would need a sandbox. */
  async #invocation({ ends }: Steps['invocation']): Promise<void> {
    const identity = { invocation_id: newId(), reactor_id: newId() };
    const sealed = `sv1.${newId()}.${'A'.repeat(40)}`;
    const stream = streams.invocation(this.#principal.tenant.id, identity.invocation_id);
    const add = (type: VaultEventType, data: JsonObject) =>
      this.#append(stream, type, { ...identity, ...data });
    await add('ReactorStarted', { runner_id: 'r', deadline: this.#in(1) });
    if (ends === 'not') return;
    if (ends === 'badly')
      return add('ReactorFailed', { mode: 'async', status: 400, reason: 'thrown', problem: sealed });
    await add('ReactorSucceeded', { mode: 'async', result: sealed });
    await add('WebhookAttemptFailed', { attempt: 1, reason: 'refused', next_at: this.#in(1) });
    if (ends === 'delivered') await add('WebhookDelivered', { attempt: 2 });
  }

  async #append(stream: string, type: VaultEventType, data: JsonObject): Promise<void> {
    const { tenant, actor } = this.#principal;
    const occurred_at = this.#of.clock.now().toISOString();
    const metadata = { tenant_id: tenant.id, actor, trace_id: 't', correlation_id: 't', occurred_at };
    await this.#of.store.append(
      stream,
      [
        {
          id: newId(),
          type,
          version: eventRegistry.versionOf(type),
          data,
          metadata,
        } as unknown as VaultEvent,
      ],
      'any',
    );
  }

  async #read(of: number): Promise<void> {
    const tokens = [{ token_id: this.#id(`token${of}`), token_type: 'card', transform: 'mask' }];
    const stream = streams.access(this.#principal.tenant.id, this.#of.clock.now().toISOString().slice(0, 10));
    await this.#append(stream, 'TokensRead', { operation: 'read', tokens: [...tokens, ...tokens] });
  }

  async #application({ slot: of, isPublic, isExpiring }: Steps['application']): Promise<void> {
    const body = {
      name: 'a',
      type: isPublic ? 'public' : 'private',
      permissions: ['token:create'],
      ...(isExpiring && { expires_at: this.#in(2) }),
    };
    await this.#make(`application${of}`, this.#call('createApplication', { body }));
  }

  async take(next: AnyStep): Promise<void> {
    switch (next.kind) {
      case 'create':
        return this.#create(next);
      case 'session':
        return this.#session(next);
      case 'reactor':
        return this.#reactor(next);
      case 'proxy':
        return this.#proxy(next);
      case 'invocation':
        return this.#invocation(next);
      case 'application':
        return this.#application(next);
      case 'read':
        return this.#read(next.slot);
      case 'open':
        return this.#make(`transaction${next.transaction}`, this.#call('createTransaction', {}));
      case 'wait':
        this.#of.clock.advance(next.hours * 3_600_000);
        await this.#of.sweep();
        return;
      default:
        await this.#change(next);
    }
  }

  /** One operation on an entity that may or may not exist. */
  #change(
    next: Exclude<
      AnyStep,
      {
        kind:
          | 'create'
          | 'session'
          | 'reactor'
          | 'proxy'
          | 'invocation'
          | 'application'
          | 'read'
          | 'open'
          | 'wait';
      }
    >,
  ) {
    switch (next.kind) {
      case 'patch': {
        const input = {
          params: { id: this.#id(`token${next.slot}`) },
          body: { metadata: { p: next.value } },
        };
        return this.#call('updateToken', input, next.transaction);
      }
      case 'delete':
        return this.#call('deleteToken', { params: { id: this.#id(`token${next.slot}`) } }, next.transaction);
      case 'close': {
        const operation = next.isCommit ? 'commitTransaction' : 'rollbackTransaction';
        return this.#call(operation, { params: { id: this.#id(`transaction${next.transaction}`) } });
      }
      case 'rename': {
        const body = { name: randomUUID(), permissions: ['token:read'] };
        return this.#call('updateApplication', { params: { id: this.#id(`application${next.slot}`) }, body });
      }
      case 'regenerate':
        return this.#call('regenerateApplicationKey', {
          params: { id: this.#id(`application${next.slot}`) },
        });
      case 'endApplication':
        return this.#call('deleteApplication', { params: { id: this.#id(`application${next.slot}`) } });
      case 'tenant':
        return this.#call('updateTenant', { body: { name: randomUUID(), settings: { k: 'v' } } });
    }
  }
}
