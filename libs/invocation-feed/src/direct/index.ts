export { createDirectInvocationFeed, type DirectInvocationFeedOptions } from './direct-invocation-feed.ts';
