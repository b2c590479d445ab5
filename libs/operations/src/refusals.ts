import type { Principal } from '@token-vault/access';
import {
  AccessDenied,
  AuthenticationFailed,
  EnterpriseRequiredError,
  ForbiddenError,
  type Actor,
  type DataOf,
  type EntityType,
  type EventMetadata,
  type FoundEntity,
  type LackingRight,
  type Operation,
  type Permission,
  type VaultEvent,
} from '@token-vault/contracts';
import type { AuditTrail } from './audit-trail.ts';
import type { RetiredKey } from './callers.ts';
import { withReason } from './reason.ts';
import type { RecordedRefusals } from './recorded-refusals.ts';
import { createRequestContext, type RequestContext, type RequestContextOptions } from './request-context.ts';

type Refusal = ForbiddenError | EnterpriseRequiredError;

const isRefusal = (error: unknown): error is Refusal =>
  error instanceof ForbiddenError || error instanceof EnterpriseRequiredError;

/** The wanted right or entity, where the refusal does not name it. */
interface Asked {
  readonly entity: { readonly type: EntityType; readonly id?: string };
  readonly permission?: Permission | undefined;
  /** By default the operation of the request. */
  readonly operation?: string;
}

/**
 * The record of a refusal (403) at any entrance. It is in the name of whoever lacks the right: the caller of the context, unless the refusal
 * names another. It names an entity only when the entity was found. The caller's text may be a card number, so no other part of the request
 * is recorded.
 */
export function deniedEvent(
  context: RequestContext,
  { entity, lacking }: Pick<ForbiddenError, 'entity' | 'lacking'>,
  asked: Asked,
): VaultEvent {
  const { type, id } = entity ?? asked.entity;
  const permission = lacking?.permission ?? asked.permission;
  const event = context.event(AccessDenied, {
    entity_type: type,
    ...(id === undefined ? {} : { entity_id: id }),
    ...(permission === undefined ? {} : { permission }),
    operation: asked.operation ?? context.metadata.request ?? 'react',
  });
  return lacking ? { ...event, metadata: inNameOf(lacking, event.metadata) } : event;
}

const inNameOf = (
  { actor, authorizedBy }: LackingRight,
  { application_id: _ofCaller, ...metadata }: EventMetadata,
): EventMetadata => ({
  ...metadata,
  actor,
  ...(authorizedBy === undefined ? {} : { application_id: authorizedBy }),
});

/** Finds an entity of the tenant by an unvalidated id. */
export type FindEntity = (tenantId: string, type: EntityType, id: string) => Promise<FoundEntity | undefined>;

/** The entity that the path names, if it exists. */
async function findNamed(
  { entity, params }: DeniedOperation,
  tenantId: string,
  given: unknown,
  find: FindEntity | undefined,
): Promise<FoundEntity | undefined> {
  const named = params?.safeParse(given).data as { id?: unknown } | undefined;
  return typeof named?.id === 'string' ? find?.(tenantId, entity, named.id) : undefined;
}

export interface RefusalDependencies {
  readonly audit: AuditTrail;
  /** Finds the entity of a refusal for its record. Without it, refusals name only entities that handlers found. */
  readonly findEntity?: FindEntity | undefined;
}

/** The parts of an operation that the record of its refusal names. */
export type DeniedOperation = Pick<Operation, 'entity' | 'params' | 'permission'>;

interface DeniedCall {
  readonly id: string;
  readonly operation: DeniedOperation;
  /** With the path parameters as the caller wrote them. */
  readonly request: { readonly params?: unknown };
}

/** Records that an operation was refused. */
export async function recordDenied(
  { audit, findEntity }: RefusalDependencies,
  context: RequestContext,
  { id, operation, request: { params } }: DeniedCall,
  refusal: Refusal,
): Promise<void> {
  const named: Pick<ForbiddenError, 'entity' | 'lacking'> = refusal instanceof ForbiddenError ? refusal : {};
  const entity =
    named.entity ?? (await findNamed(operation, context.principal.tenant.id, params, findEntity));
  const asked = {
    entity: entity ?? { type: operation.entity },
    permission: operation.permission ?? undefined,
    operation: id,
  };
  await audit.recordAll(context, [deniedEvent(context, named, asked)]);
}

/** The refusals that are in the log. One that ends a step of code, and then its request, is recorded once. */
const recorded = new WeakSet<Refusal>();

/** Does the work. If it is refused (403), `record` records that first, unless the log has it. @param record gives whether the log has it now */
export async function recordingRefusal<Result>(
  record: (refusal: Refusal) => Promise<boolean>,
  work: () => Promise<Result> | Result,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (isRefusal(error) && !recorded.has(error) && (await record(error))) recorded.add(error);
    throw error;
  }
}

interface RefusedCode {
  /** Of the request for which the code runs. */
  readonly metadata: EventMetadata;
  /** The reactor or the proxy. The record names it when the refusal names no entity. */
  readonly code: FoundEntity;
  readonly refusals: RecordedRefusals | undefined;
  readonly now: Date;
}

/** Records that a step of running code was refused: to the caller of the run, unless the refusal names another. */
export async function recordDeniedStep(
  audit: AuditTrail,
  { metadata, code, refusals, now }: RefusedCode,
  refusal: ForbiddenError,
): Promise<void> {
  const { tenant_id: tenantId, actor, trace_id: traceId, request = 'react' } = metadata;
  const nobody = withoutRights(tenantId, actor);
  const { application_id: authorizedBy } = metadata;
  const principal = withReason(
    authorizedBy === undefined ? nobody : { ...nobody, authorizedBy },
    metadata.reason,
  );
  const context = createRequestContext({ principal, traceId, now, request, refusals });
  await audit.recordAll(context, [deniedEvent(context, refusal, { entity: code, permission: 'token:use' })]);
}

/** The principal that the log names when its rights do not matter. */
const withoutRights = (tenantId: string, actor: Actor, applicationId = actor.id): Principal => ({
  tenant: { id: tenantId, plan: 'standard', settings: {} },
  actor,
  applicationId,
  applicationType: 'private',
  permissions: [],
  rules: [],
});

/** The principal that the log names for a retired key. It has no rights. */
const principalOfRetired = ({ tenantId, applicationId, sessionId }: RetiredKey): Principal =>
  withoutRights(
    tenantId,
    sessionId === undefined ? { kind: 'application', id: applicationId } : { kind: 'session', id: sessionId },
    applicationId,
  );

/** Records a failed authentication (401) with a key that was valid earlier, so that the tenant sees its use. */
export async function recordRetiredKey(
  audit: AuditTrail,
  key: RetiredKey,
  request: Omit<RequestContextOptions, 'principal'>,
): Promise<void> {
  const { applicationId: application_id, sessionId: session_id, reason } = key;
  const data: DataOf<'AuthenticationFailed'> = {
    application_id,
    ...(session_id === undefined ? {} : { session_id }),
    reason,
  };
  const context = createRequestContext({ ...request, principal: principalOfRetired(key) });
  await audit.record(context, AuthenticationFailed, data);
}
