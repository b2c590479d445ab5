export { createProxyHandlers, type ProxyDependencies, type ProxyHandlers } from './routes.ts';
