export {
  certifyErasure,
  NotErasedError,
  verifyErasureCertificate,
  type CertificateOptions,
  type ErasureCertificate,
} from './erasure-certificate.ts';
export { auditPublicKey } from './signature.ts';
export { exportAudit, type ExportFormat } from './export.ts';
export { sealLog, sealLogOnce, startSealer } from './sealer.ts';
export { verifyAudit, type AuditReport } from './verify.ts';
export { tenantsOfToken } from './token-erasure.ts';
