import { streams, type PatchReactorBody, type Reactor, type ReactorBody } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import type { AnswerOwner, RequestContext } from '@token-vault/service-kit';
import { execute, expectedAt, retryOnConflict } from '../aggregates/decider.ts';
import { signed } from '../aggregates/signing.ts';
import { mergePatch } from '../tokens/merge-patch.ts';
import { parsesOnly, requireCompiled, type CompileCode } from './code-check.ts';
import {
  createConfigurations,
  reactorEntity,
  requireFewEntries,
  type Configuration,
  type Configurations,
} from './configuration.ts';
import { reactorDecider } from './decider.ts';
import { loadReactor } from './load.ts';
import { reactorOwner } from './owner.ts';
import { referencedApplication, type ReferencedApplication } from './referenced-application.ts';
import { evolve, reactorSigner, type ReactorContent, type ReactorDetails } from './state.ts';

export interface ReactorDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  /** Parsing alone when absent. */
  readonly compileCode?: CompileCode | undefined;
}

export interface ReactorAnswer {
  readonly reactor: Reactor;
  readonly position: Position | undefined;
}

const tenantOf = (context: RequestContext): string => context.principal.tenant.id;
const streamOf = (context: RequestContext, id: string): string => streams.reactor(tenantOf(context), id);

/** Unset fields are left out by JSON. */
function present(
  tenantId: string,
  details: ReactorDetails,
  configuration: Configuration,
  application: ReferencedApplication | undefined,
): Reactor {
  const { id, name, code } = details;
  return {
    id,
    tenant_id: tenantId,
    name,
    code,
    configuration: { ...configuration },
    application,
    created_by: details.createdBy,
    created_at: details.createdAt,
    modified_by: details.modifiedBy,
    modified_at: details.modifiedAt,
  };
}

/** Reactors: code and sealed configuration (interface.md, Reactors; rules.md §10). */
export class Reactors {
  readonly #dependencies: ReactorDependencies;
  readonly #store: EventStore;
  readonly #keyRing: KeyRing;
  readonly #configurations: Configurations;
  readonly #compileCode: CompileCode;

  constructor(dependencies: ReactorDependencies) {
    const { store, keyRing, compileCode } = dependencies;
    this.#dependencies = dependencies;
    this.#store = store;
    this.#keyRing = keyRing;
    this.#configurations = createConfigurations(keyRing);
    this.#compileCode = compileCode ?? parsesOnly;
  }

  /** @throws ValidationError, DomainError `code_invalid` */
  async create(body: ReactorBody, context: RequestContext): Promise<ReactorAnswer> {
    const application = await this.#referenced(body.application, context);
    await this.#compile(body.code, context);
    const id = context.newEntityId();
    const { name, code, configuration } = body;
    const sealed = await this.#configurations.seal(tenantOf(context), id, configuration);
    const content = { name, code, configuration: sealed, applicationId: application?.id };
    const { position } = await execute({
      store: this.#store,
      stream: streamOf(context, id),
      decider: reactorDecider,
      command: { kind: 'create', id, content },
      event: context.event.bind(context),
      signing: this.#signingOf(context),
    });
    return this.#answer(context, id, configuration, application, position);
  }

  /** Replaces the reactor; without `application` it has none afterwards. @throws NotFoundError, as `create` */
  async update(id: string, body: ReactorBody, context: RequestContext): Promise<ReactorAnswer> {
    await loadReactor(this.#dependencies, tenantOf(context), id);
    const application = await this.#referenced(body.application, context);
    await this.#compile(body.code, context);
    const { name, code, configuration } = body;
    const position = await this.#change(context, id, async (details) => ({
      name,
      code,
      configuration: await this.#reseal(context, details, configuration),
      applicationId: application?.id,
    }));
    return this.#answer(context, id, configuration, application, position);
  }

  /** RFC 7386: what is absent stays, null removes. @throws NotFoundError, as `create` */
  async patch(id: string, patch: PatchReactorBody, context: RequestContext): Promise<Position> {
    await loadReactor(this.#dependencies, tenantOf(context), id);
    const application = await this.#referenced(patch.application ?? undefined, context);
    if (patch.code !== undefined) await this.#compile(patch.code, context);
    return this.#change(context, id, async (details) => ({
      name: patch.name ?? details.name,
      code: patch.code ?? details.code,
      configuration: await this.#patchedConfiguration(context, details, patch.configuration),
      applicationId: patch.application === undefined ? details.applicationId : application?.id,
    }));
  }

  /** The decision is durable first, then the keys are destroyed, both before the answer. @throws NotFoundError */
  async delete(id: string, context: RequestContext): Promise<Position | undefined> {
    const { position } = await execute({
      store: this.#store,
      stream: streamOf(context, id),
      decider: reactorDecider,
      command: { kind: 'delete' },
      event: context.event.bind(context),
    });
    await this.#keyRing.destroyKeysOfEntity(tenantOf(context), reactorEntity(id));
    return position;
  }

  /** Stored answers that hold its configuration end with it. */
  ownerOf(id: string, context: RequestContext): AnswerOwner {
    return reactorOwner(this.#store, tenantOf(context), id);
  }

  #signingOf(context: RequestContext) {
    return { signer: reactorSigner, hashes: () => this.#keyRing.hashes(tenantOf(context)) };
  }

  /** Sealing comes between reading and deciding; whoever writes in between makes it start again. */
  #change(
    context: RequestContext,
    id: string,
    contentAfter: (before: ReactorDetails) => Promise<ReactorContent>,
  ): Promise<Position> {
    return retryOnConflict(async () => {
      const { details, revision } = await loadReactor(this.#dependencies, tenantOf(context), id);
      const state = { kind: 'active', details } as const;
      const content = await contentAfter(details);
      const facts = reactorDecider.decide(state, { kind: 'update', content });
      const plain = facts.map((each) => context.event(each, each.data));
      const events = await signed(plain, { state, revision }, evolve, this.#signingOf(context));
      return (await this.#store.append(streamOf(context, id), events, expectedAt(revision))).position;
    });
  }

  #reseal(context: RequestContext, details: ReactorDetails, configuration: Configuration) {
    return this.#configurations.reseal(tenantOf(context), details.id, details.configuration, configuration);
  }

  async #patchedConfiguration(
    context: RequestContext,
    details: ReactorDetails,
    patch: PatchReactorBody['configuration'],
  ) {
    if (patch === undefined) return details.configuration;
    // The field itself is required: taking it back leaves an empty one.
    if (patch === null) return this.#reseal(context, details, {});
    const before = await this.#configurations.open(tenantOf(context), details.id, details.configuration);
    const configuration = mergePatch({ ...before.expose() }, patch) as Configuration;
    requireFewEntries(configuration);
    return this.#reseal(context, details, configuration);
  }

  async #referenced(
    reference: { readonly id: string } | undefined,
    context: RequestContext,
  ): Promise<ReferencedApplication | undefined> {
    if (reference === undefined) return undefined;
    return referencedApplication(this.#store, tenantOf(context), reference.id.toLowerCase(), context.now);
  }

  async #compile(code: string, context: RequestContext): Promise<void> {
    requireCompiled(await this.#compileCode(code, tenantOf(context)));
  }

  async #answer(
    context: RequestContext,
    id: string,
    configuration: Configuration,
    application: ReferencedApplication | undefined,
    position: Position | undefined,
  ): Promise<ReactorAnswer> {
    const { details } = await loadReactor(this.#dependencies, tenantOf(context), id);
    return { reactor: present(tenantOf(context), details, configuration, application), position };
  }
}
