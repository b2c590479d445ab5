import { streams, type PatchReactorBody, type Reactor, type ReactorBody } from '@token-vault/contracts';
import type { KeyRing, Secret } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import type { AnswerOwner, RequestContext } from '@token-vault/operations';
import { attemptsOf } from '../aggregates/attempts.ts';
import { execute } from '../aggregates/decider.ts';
import { requireSigned } from '../aggregates/signing.ts';
import { parsesOnly, requireCompiled, type CompileCode } from './code-check.ts';
import { createConfigurations, entityOf, type Configuration, type Configurations } from './configuration.ts';
import { reactorDecider, requireActive } from './decider.ts';
import { loadReactor } from './load.ts';
import { reactorOwner } from './owner.ts';
import { referencedApplication, type ReferencedApplication } from './referenced-application.ts';
import { reactorSigner, type ReactorContent, type ReactorDetails } from './state.ts';

export interface ReactorDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  /** When absent, the code is only parsed. */
  readonly compileCode?: CompileCode | undefined;
}

export interface ReactorAnswer {
  readonly reactor: Reactor;
  readonly position: Position | undefined;
  readonly isRepeat?: true | undefined;
}

const tenantOf = (context: RequestContext): string => context.principal.tenant.id;
const streamOf = (context: RequestContext, id: string): string => streams.reactor(tenantOf(context), id);

/** JSON leaves out unset fields. */
function present(
  tenantId: string,
  details: ReactorDetails,
  configuration: Secret<Configuration>,
  application: ReferencedApplication | undefined,
): Reactor {
  const { id, name, code } = details;
  return {
    id,
    tenant_id: tenantId,
    name,
    code,
    configuration: { ...configuration.expose() },
    application,
    created_by: details.createdBy,
    created_at: details.createdAt,
    modified_by: details.modifiedBy,
    modified_at: details.modifiedAt,
  };
}

/** Reactors: code and sealed configuration (interface.md, Reactors; rules.md §10). */
interface ChangedReactor {
  readonly position: Position | undefined;
  /** The request was done before: nothing was changed now. */
  readonly isRepeat?: true;
}

/** The fields of an answer that are not stored with the reactor. */
interface Shown {
  readonly configuration: Secret<Configuration>;
  readonly application: ReferencedApplication | undefined;
  readonly position: Position | undefined;
}

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
    this.#configurations = createConfigurations(keyRing, 'reactor');
    this.#compileCode = compileCode ?? parsesOnly;
  }

  /** @throws ValidationError, DomainError `code_invalid` */
  async create(body: ReactorBody, context: RequestContext): Promise<ReactorAnswer> {
    const application = await this.#referenced(body.application, context);
    await this.#compile(body.code, context);
    const id = context.newEntityId();
    const { name, code, configuration } = body;
    const sealed = () => this.#configurations.seal(tenantOf(context), id, configuration);
    const { position } = await execute({
      store: this.#store,
      stream: streamOf(context, id),
      decider: reactorDecider,
      command: async () => ({
        kind: 'create' as const,
        id,
        content: { name, code, configuration: await sealed(), applicationId: application?.id },
      }),
      event: context.event.bind(context),
      signing: this.#signingOf(context),
      newKeys: this.#configurations.newKeys(tenantOf(context)),
    });
    return this.#answer(context, id, { configuration, application, position });
  }

  /**
   * Replaces the reactor. Without `application` in the body, the reactor has none afterwards. @throws NotFoundError,
   * as `create`
   */
  async update(id: string, body: ReactorBody, context: RequestContext): Promise<ReactorAnswer> {
    await loadReactor(this.#dependencies, tenantOf(context), id);
    const application = await this.#referenced(body.application, context);
    await this.#compile(body.code, context);
    const { name, code, configuration } = body;
    const changed = await this.#change(context, id, async (details) => ({
      name,
      code,
      configuration: await this.#reseal(context, details, configuration),
      applicationId: application?.id,
    }));
    const shown = changed.isRepeat ? await this.#present(context, id) : { configuration, application };
    return { ...(await this.#answer(context, id, { ...shown, ...changed })), ...changed };
  }

  /** A merge patch (RFC 7386): an absent field stays, null removes it. @throws NotFoundError, as `create` */
  async patch(id: string, body: PatchReactorBody, context: RequestContext): Promise<ChangedReactor> {
    await loadReactor(this.#dependencies, tenantOf(context), id);
    const application = await this.#referenced(body.application ?? undefined, context);
    if (body.code !== undefined) await this.#compile(body.code, context);
    return this.#change(context, id, async (details) => ({
      name: body.name ?? details.name,
      code: body.code ?? details.code,
      configuration: await this.#configurations.patched(
        tenantOf(context),
        id,
        details.configuration,
        body.configuration,
      ),
      applicationId: body.application === undefined ? details.applicationId : application?.id,
    }));
  }

  /** The event is durable first, then the keys are destroyed, and the answer comes last. @throws NotFoundError */
  async delete(id: string, context: RequestContext): Promise<Position | undefined> {
    const { position } = await execute({
      store: this.#store,
      stream: streamOf(context, id),
      decider: reactorDecider,
      command: { kind: 'delete' },
      event: context.event.bind(context),
    });
    await this.#keyRing.destroyKeysOfEntity(tenantOf(context), entityOf('reactor', id));
    return position;
  }

  /** The stored answers that hold the configuration are destroyed with the reactor. */
  ownerOf(id: string, context: RequestContext): AnswerOwner {
    return reactorOwner(this.#store, tenantOf(context), id);
  }

  #signingOf(context: RequestContext) {
    return { signer: reactorSigner, hashes: () => this.#keyRing.hashes(tenantOf(context)) };
  }

  /**
   * The configuration is sealed between reading and deciding. A write of another caller in between makes the command
   * start again.
   */
  #change(
    context: RequestContext,
    id: string,
    contentAfter: (before: ReactorDetails) => Promise<ReactorContent>,
  ): Promise<ChangedReactor> {
    const signing = this.#signingOf(context);
    return execute({
      store: this.#store,
      stream: streamOf(context, id),
      decider: reactorDecider,
      async command(state) {
        const details = requireActive(state);
        requireSigned(reactorSigner, state, await signing.hashes());
        return { kind: 'update' as const, content: await contentAfter(details) };
      },
      event: context.event.bind(context),
      attempts: attemptsOf(context),
      signing,
    });
  }

  /** The parts of an answer that are not stored with the reactor, as they are now. */
  async #present(context: RequestContext, id: string): Promise<Omit<Shown, 'position'>> {
    const details = await loadReactor(this.#dependencies, tenantOf(context), id);
    const { applicationId } = details;
    const configuration = await this.#configurations.open(tenantOf(context), id, details.configuration);
    const application = await this.#referenced(
      applicationId === undefined ? undefined : { id: applicationId },
      context,
    );
    return { configuration, application };
  }

  #reseal(context: RequestContext, details: ReactorDetails, configuration: Secret<Configuration>) {
    return this.#configurations.reseal(tenantOf(context), details.id, details.configuration, configuration);
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
    { configuration, application, position }: Shown,
  ): Promise<ReactorAnswer> {
    const details = await loadReactor(this.#dependencies, tenantOf(context), id);
    return { reactor: present(tenantOf(context), details, configuration, application), position };
  }
}
