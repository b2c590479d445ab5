export { CustomAnswerError } from './code.ts';
export { mayFetch } from './configured.ts';
export { createProxyHandlers, type ProxyDependencies, type ProxyHandlers } from './routes.ts';
export type { CodeRun, RunCode } from './transforms.ts';
