import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Principal } from '@token-vault/access';
import type { Token } from '@token-vault/contracts';
import fc from 'fast-check';
import { principalOf, type Call } from './command-world.ts';

/** The tokens and the log that a tenant should see, in the simplest form. */
interface ModelToken {
  type: string;
  container: string;
  metadata: Record<string, string>;
}
export type Model = { tokens: Map<string, ModelToken>; applications: Map<string, string>; log: string[] };

export type Step =
  | {
      kind: 'create';
      slot: number;
      container: string;
      metadata: Record<string, string>;
      inTransaction: boolean;
    }
  | { kind: 'patch'; slot: number; metadata: Record<string, string> }
  | { kind: 'delete'; slot: number }
  | { kind: 'application'; slot: number; name: string }
  | { kind: 'rename'; slot: number; name: string }
  | { kind: 'end-application'; slot: number };

const slot = fc.nat(4);
const name = fc.constantFrom('a', 'b', 'c');
const metadata = fc.dictionary(fc.constantFrom('k', 'l'), fc.constantFrom('One', 'two'), { maxKeys: 2 });
export const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant('create' as const),
    slot,
    container: fc.constantFrom('/general/high/', '/x/', '/x/y/'),
    metadata,
    inTransaction: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('patch' as const), slot, metadata }),
  fc.record({ kind: fc.constant('delete' as const), slot }),
  fc.record({ kind: fc.constant('application' as const), slot, name }),
  fc.record({ kind: fc.constant('rename' as const), slot, name }),
  fc.record({ kind: fc.constant('end-application' as const), slot }),
);

/** Takes steps as one tenant and keeps the model beside them. */
export class ModelledRun {
  readonly model: Model = { tokens: new Map(), applications: new Map(), log: [] };
  readonly #call: Call;
  readonly #principal: Principal;
  readonly #ids = new Map<string, string>();

  constructor(call: Call, tenantId: string) {
    this.#call = call;
    this.#principal = principalOf(tenantId);
  }

  #id(kind: string, of: number): string {
    return this.#ids.get(`${kind}${of}`) ?? randomUUID();
  }

  async #create(of: Extract<Step, { kind: 'create' }>): Promise<void> {
    const body = { type: 'token', data: randomUUID(), containers: [of.container], metadata: of.metadata };
    const transaction = of.inTransaction
      ? await this.#call('createTransaction', this.#principal, {})
      : undefined;
    const transactionId = (transaction as { id: string } | undefined)?.id;
    if (transactionId) this.model.log.push('transaction create');
    const token = (await this.#call('createToken', this.#principal, { body }, transactionId)) as Token;
    if (transactionId) {
      await this.#call('commitTransaction', this.#principal, { params: { id: transactionId } });
      this.model.log.push('transaction commit');
    }
    this.#ids.set(`token${of.slot}`, token.id);
    this.model.tokens.set(token.id, { type: 'token', container: of.container, metadata: of.metadata });
    this.model.log.push('token create');
  }

  async #patch(of: Extract<Step, { kind: 'patch' }>): Promise<void> {
    const id = this.#id('token', of.slot);
    const body = { metadata: of.metadata };
    if (!(await this.#call('updateToken', this.#principal, { params: { id }, body }))) return;
    const token = this.model.tokens.get(id);
    if (!token) throw new Error('a token was updated that is not there');
    const changed = { ...token.metadata, ...of.metadata };
    this.model.log.push(isDeepStrictEqual(changed, { ...token.metadata }) ? 'token read' : 'token update');
    token.metadata = changed;
  }

  async #delete(of: Extract<Step, { kind: 'delete' }>): Promise<void> {
    const id = this.#id('token', of.slot);
    if (!(await this.#call('deleteToken', this.#principal, { params: { id } }))) return;
    if (!this.model.tokens.delete(id)) throw new Error('a token was deleted that is not there');
    this.model.log.push('token delete');
  }

  async #createApplication(of: Extract<Step, { kind: 'application' }>): Promise<void> {
    const body = { name: of.name, type: 'private', permissions: ['token:read'] };
    const { id } = (await this.#call('createApplication', this.#principal, { body })) as { id: string };
    this.#ids.set(`application${of.slot}`, id);
    this.model.applications.set(id, of.name);
    this.model.log.push('application create');
  }

  async #renameApplication(of: Extract<Step, { kind: 'rename' }>): Promise<void> {
    const id = this.#id('application', of.slot);
    const body = { name: of.name, permissions: ['token:read'] };
    if (!(await this.#call('updateApplication', this.#principal, { params: { id }, body }))) return;
    this.model.applications.set(id, of.name);
    this.model.log.push('application update');
  }

  async #endApplication(of: Extract<Step, { kind: 'end-application' }>): Promise<void> {
    const id = this.#id('application', of.slot);
    if (!(await this.#call('deleteApplication', this.#principal, { params: { id } }))) return;
    this.model.applications.delete(id);
    this.model.log.push('application delete');
  }

  take(next: Step): Promise<void> {
    switch (next.kind) {
      case 'create':
        return this.#create(next);
      case 'patch':
        return this.#patch(next);
      case 'delete':
        return this.#delete(next);
      case 'application':
        return this.#createApplication(next);
      case 'rename':
        return this.#renameApplication(next);
      case 'end-application':
        return this.#endApplication(next);
    }
  }
}
