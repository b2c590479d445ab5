export { listenForAccessChanges, type AccessChanges } from './access-changes.ts';
export { createAuthenticator, type Authentication, type Authenticator } from './authentication.ts';
export {
  authenticationMigrations,
  createKeyUses,
  findLastUses,
  type KeyUses,
  type KeyUsesOptions,
} from './key-uses.ts';
export type { Caller, SignedIn } from './caller.ts';
export { createCallers, type CallerDependencies, type Callers } from './callers.ts';
