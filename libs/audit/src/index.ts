export {
  certifyErasure,
  NotErasedError,
  verifyErasureCertificate,
  type CertificateOptions,
} from './erasure-certificate.ts';
export { readCheckpoints, writeCheckpoints } from './checkpoints-file.ts';
export { auditPublicKey } from './signature.ts';
export { UnknownCursorError } from './cursor.ts';
export { exportAudit, type ExportFormat } from './export.ts';
export { countFindings } from './findings.ts';
export { sealLogOnce, startSealer } from './seal-regularly.ts';
export { sealLog } from './sealer.ts';
export type { CheckSignatures } from './signatures.ts';
export { verifyAudit, type AuditReport } from './verify.ts';
export { tenantsOfToken } from './token-erasure.ts';
export { verifyTenantAudit, type TenantAuditOptions } from './verify-tenant.ts';
export { watchKeys } from './watched-keys.ts';
