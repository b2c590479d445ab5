import {
  ProxyKeyDeleted,
  streams,
  type ApplicationKey,
  type CreateApplicationKeyBody,
  type PatchProxyBody,
  type Proxy,
  type ProxyBody,
} from '@token-vault/contracts';
import { generateApiKey, hashApiKey, secret } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import type { AnswerOwner, RequestContext } from '@token-vault/operations';
import { attemptsOf } from '../aggregates/attempts.ts';
import { once, type Deletion } from '../aggregates/deletion.ts';
import { execute, load } from '../aggregates/decider.ts';
import { requireSigned } from '../aggregates/signing.ts';
import { withOffset } from '../applications/moment.ts';
import { parsesOnly, requireCompiled, type CompileCode } from '../reactors/code-check.ts';
import { createConfigurations, entityOf, type Configurations } from '../reactors/configuration.ts';
import type { ReactorDependencies } from '../reactors/handlers.ts';
import { referencedApplication } from '../reactors/referenced-application.ts';
import { codesOf, contentOf, patched, present, type Shown } from './content.ts';
import { proxyDecider, requireActive, type ProxyCommand } from './decider.ts';
import { loadProxy } from './load.ts';
import { proxySigner, type ProxyContent, type ProxyDetails } from './state.ts';

interface ProxyAnswer {
  readonly proxy: Proxy;
  readonly position: Position | undefined;
  readonly isRepeat?: true | undefined;
}

interface Changed {
  readonly position: Position | undefined;
  /** The request was done before: nothing was changed now. */
  readonly isRepeat?: true;
}

const tenantOf = (context: RequestContext): string => context.principal.tenant.id;
const streamOf = (context: RequestContext, id: string): string => streams.proxy(tenantOf(context), id);

/** Configured proxies: destination, transforms, sealed configuration, keys of their own (docs/reference/proxy.md). */
export class Proxies {
  readonly #dependencies: ReactorDependencies;
  readonly #store: EventStore;
  readonly #configurations: Configurations;
  readonly #compileCode: CompileCode;

  constructor(dependencies: ReactorDependencies) {
    this.#dependencies = dependencies;
    this.#store = dependencies.store;
    this.#configurations = createConfigurations(dependencies.keyRing, 'proxy');
    this.#compileCode = dependencies.compileCode ?? parsesOnly;
  }

  /** @throws ValidationError, DomainError `code_invalid` */
  async create(body: ProxyBody, context: RequestContext): Promise<ProxyAnswer> {
    const application = await this.#referenced(body.application, context);
    await this.#compile(codesOf(body), context);
    const id = context.newEntityId();
    const configuration = body.configuration ?? secret({});
    const { position } = await this.#execute(context, id, async () => ({
      kind: 'create',
      id,
      content: contentOf(body, {
        configuration: await this.#configurations.seal(tenantOf(context), id, configuration),
        applicationId: application?.id,
      }),
    }));
    return { proxy: await this.#shown(context, id, { configuration, application }), position };
  }

  /** Replaces all but the keys. Fields that the body lacks are unset afterwards. @throws NotFoundError, as `create` */
  async update(id: string, body: ProxyBody, context: RequestContext): Promise<ProxyAnswer> {
    await loadProxy(this.#dependencies, tenantOf(context), id);
    const application = await this.#referenced(body.application, context);
    await this.#compile(codesOf(body), context);
    const configuration = body.configuration ?? secret({});
    const changed = await this.#change(context, id, async ({ configuration: before }) =>
      contentOf(body, {
        configuration: await this.#configurations.reseal(tenantOf(context), id, before, configuration),
        applicationId: application?.id,
      }),
    );
    const given = changed.isRepeat ? undefined : { configuration, application };
    return { proxy: await this.#shown(context, id, given), ...changed };
  }

  /** A merge patch (RFC 7386): an absent field stays, null removes it. @throws NotFoundError, as `create` */
  async patch(id: string, body: PatchProxyBody, context: RequestContext): Promise<Changed> {
    await loadProxy(this.#dependencies, tenantOf(context), id);
    const application = await this.#referenced(body.application ?? undefined, context);
    await this.#compile(codesOf(body), context);
    return this.#change(context, id, async (before) =>
      patched(before, body, {
        configuration: await this.#configurations.patched(
          tenantOf(context),
          id,
          before.configuration,
          body.configuration,
        ),
        applicationId: body.application === undefined ? before.applicationId : application?.id,
      }),
    );
  }

  /** The event is durable first, then the keys are destroyed, and the answer comes last. @throws NotFoundError */
  async delete(id: string, context: RequestContext): Promise<Position | undefined> {
    const { position } = await this.#execute(context, id, { kind: 'delete' });
    await this.#dependencies.keyRing.destroyKeysOfEntity(tenantOf(context), entityOf('proxy', id));
    return position;
  }

  /** The key is shown in this answer only. @throws NotFoundError, ConflictError */
  async addKey(id: string, body: CreateApplicationKeyBody, context: RequestContext) {
    const key = generateApiKey('prx');
    const expiresAt = body.expires_at === undefined ? undefined : withOffset(body.expires_at);
    const made: ApplicationKey = {
      id: context.newEntityId(),
      created_at: context.now.toISOString(),
      ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
    };
    const { position } = await this.#execute(context, id, {
      kind: 'add-key',
      key: { ...made, hash: hashApiKey(key) },
      now: context.now,
    });
    return { key: { ...made, key }, position };
  }

  /**
   * Every use of a key reads the log, so the key ends with this append, in every process. The repeat of a deletion appends nothing and gives the position of
   * the first one. @throws NotFoundError
   */
  async deleteKey(id: string, keyId: string, context: RequestContext): Promise<Deletion> {
    return once(
      () => this.#execute(context, id, { kind: 'delete-key', keyId, now: context.now }),
      () => this.#keyDeletionIn(streamOf(context, id), keyId),
    );
  }

  async #keyDeletionIn(stream: string, keyId: string): Promise<Position | undefined> {
    for await (const { type, data, position } of this.#store.readStream(stream))
      if (type === ProxyKeyDeleted.type && data.key_id === keyId) return position;
    return undefined;
  }

  /** The stored answers that hold the configuration or a key are destroyed with the proxy. */
  ownerOf(id: string, context: RequestContext): AnswerOwner {
    return {
      entity: entityOf('proxy', id),
      isThere: async () =>
        (await load(this.#store, streamOf(context, id), proxyDecider)).state.kind === 'active',
    };
  }

  #execute(context: RequestContext, id: string, command: ProxyCommand | (() => Promise<ProxyCommand>)) {
    return execute({
      store: this.#store,
      stream: streamOf(context, id),
      decider: proxyDecider,
      command,
      event: context.event.bind(context),
      signing: this.#signingOf(context),
      newKeys: this.#configurations.newKeys(tenantOf(context)),
    });
  }

  #signingOf(context: RequestContext) {
    const { keyRing } = this.#dependencies;
    return { signer: proxySigner, hashes: () => keyRing.hashes(tenantOf(context)) };
  }

  /** The configuration is sealed between reading and deciding. A write in between makes the command start again. */
  #change(
    context: RequestContext,
    id: string,
    contentAfter: (before: ProxyDetails) => Promise<ProxyContent>,
  ): Promise<Changed> {
    const signing = this.#signingOf(context);
    return execute({
      store: this.#store,
      stream: streamOf(context, id),
      decider: proxyDecider,
      async command(state) {
        const details = requireActive(state);
        requireSigned(proxySigner, state, await signing.hashes());
        return { kind: 'update' as const, content: await contentAfter(details) };
      },
      event: context.event.bind(context),
      attempts: attemptsOf(context),
      signing,
    });
  }

  /** The proxy as it is now. `given`: what the request brought; by default it is read. */
  async #shown(context: RequestContext, id: string, given?: Shown): Promise<Proxy> {
    const tenantId = tenantOf(context);
    const { details } = await loadProxy(this.#dependencies, tenantId, id);
    return present(tenantId, details, given ?? (await this.#read(context, details)));
  }

  async #read(context: RequestContext, { id, configuration, applicationId }: ProxyDetails): Promise<Shown> {
    const opened = await this.#configurations.open(tenantOf(context), id, configuration);
    const reference = applicationId === undefined ? undefined : { id: applicationId };
    return { configuration: opened, application: await this.#referenced(reference, context) };
  }

  async #referenced(reference: { readonly id: string } | undefined, context: RequestContext) {
    if (reference === undefined) return undefined;
    return referencedApplication(this.#store, tenantOf(context), reference.id.toLowerCase(), context.now);
  }

  async #compile(codes: readonly string[], context: RequestContext): Promise<void> {
    for (const code of codes) requireCompiled(await this.#compileCode(code, tenantOf(context)));
  }
}
