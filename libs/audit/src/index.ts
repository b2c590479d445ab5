export {
  certifyErasure,
  NotErasedError,
  verifyErasureCertificate,
  type CertificateOptions,
} from './erasure-certificate.ts';
export { auditPublicKey } from './signature.ts';
export { exportAudit, type ExportFormat } from './export.ts';
export { sealLog, sealLogOnce, startSealer } from './sealer.ts';
export { verifyAudit, type AuditReport } from './verify.ts';
export { tenantsOfToken } from './token-erasure.ts';
export {
  UnknownVerifiedToError,
  verifyTenantAudit,
  type TenantAuditOptions,
  type VerifiedTo,
} from './verify-tenant.ts';
