export { createAuditTrail, type AuditTrail } from './audit-trail.ts';
export type { Answer, Handler, Handlers, Input } from './http/handlers.ts';
export { createRequestContext, type RequestContext, type RequestContextOptions } from './request-context.ts';
