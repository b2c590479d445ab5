import {
  certifyErasure,
  NotErasedError,
  UnknownCursorError,
  verifyTenantAudit,
  type CheckSignatures,
  type TenantAuditOptions,
} from '@token-vault/audit';
import {
  ConflictError,
  EntitiesRead,
  entityTypeOfToken,
  NotFoundError,
  ValidationError,
  type EntityType,
  type LogVerification,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { AuditTrail, HandlersOf, RequestContext } from '@token-vault/operations';
import type { Pool } from 'pg';

export interface AuditDependencies {
  /** Of the database that also holds the key ring. */
  readonly pool: Pool;
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly audit: AuditTrail;
  /** Gives the check of signatures for one verification. */
  readonly signatureCheck: () => CheckSignatures;
}

/** The approximate number of events of the log that one request of a verification reads (ADR 44). */
const mostEvents = 10_000;

async function verify(options: TenantAuditOptions) {
  try {
    return await verifyTenantAudit(options);
  } catch (error) {
    if (error instanceof UnknownCursorError)
      throw ValidationError.of('cursor', 'is not from an answer about this log');
    throw error;
  }
}

const presentPart = (report: Awaited<ReturnType<typeof verifyTenantAudit>>): LogVerification => ({
  findings: [...report.findings],
  more_findings: report.moreFindings === 0 ? undefined : report.moreFindings,
  events: report.events,
  checkpoints: report.checkpoints,
  unsigned_events: report.unsigned,
  through: report.through,
  signed_at: report.signedAt,
  cursor: report.cursor,
});

/** Operations that prove that the log is unaltered and that tokens are erased. They call the same functions as the command line. */
export function createAuditHandlers({
  pool,
  store,
  keyRing,
  audit,
  signatureCheck,
}: AuditDependencies): Pick<HandlersOf<'query'>, 'verifyLog' | 'getErasureCertificate'> {
  const recordRead = (context: RequestContext, entityType: EntityType, entityIds: readonly string[]) =>
    audit.record(context, EntitiesRead, {
      entity_type: entityType,
      operation: 'read',
      entity_ids: [...entityIds],
    });

  return {
    async verifyLog({ query }, context) {
      const { id: tenantId } = context.principal.tenant;
      const part = { tenantId, cursor: query.cursor, until: query.end_date, mostEvents };
      const report = await verify({ store, keyRing, checkSignatures: signatureCheck(), ...part });
      await recordRead(context, 'log', []);
      return { body: presentPart(report) };
    },

    async getErasureCertificate({ params }, context) {
      const { id: tenantId } = context.principal.tenant;
      const clock = { now: () => context.now };
      try {
        const options = { store, pool, keyRing, clock, tenantId, tokenId: params.id };
        const certificate = await certifyErasure(options);
        await recordRead(context, entityTypeOfToken(certificate.token_type), [params.id]);
        return { body: certificate };
      } catch (error) {
        if (!(error instanceof NotErasedError)) throw error;
        if (error.tokenType === undefined) throw new NotFoundError('Token');
        // The answer reveals that the token exists, so the read is recorded.
        await recordRead(context, entityTypeOfToken(error.tokenType), [params.id]);
        throw new ConflictError(
          'conflict',
          'The token is not erased: it exists, or its keys are not destroyed yet.',
        );
      }
    },
  };
}
