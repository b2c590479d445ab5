export { listenForAccessChanges, type AccessChanges } from './access-changes.ts';
export { createAuthenticator, type Authentication, type Authenticator } from './authentication.ts';
export { createCallers, type Caller, type CallerDependencies, type Callers } from './callers.ts';
