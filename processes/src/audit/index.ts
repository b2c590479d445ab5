export { exportAudit, type ExportFormat } from './export.ts';
export { sealLog, sealLogOnce, startSealer } from './sealer.ts';
export { verifyAudit, type AuditReport } from './verify.ts';
