import type { Principal } from '@token-vault/access';
import {
  authenticate,
  contextOf,
  workFor,
  type AdmissionCall,
  type AdmissionDependencies,
} from './admission.ts';
import { authorize } from './authorization.ts';
import type { PresentCaller } from './present-answer.ts';

/**
 * The operations of the command line that need rights. No client sends them over HTTP, so the table of operations does not have them. Their
 * names are those that the log has as `request`.
 */
const commandLineOperations = {
  export: { entity: 'token', permission: 'token:read', summary: 'An export of tokens' },
  import: { entity: 'token', permission: 'token:create', summary: 'An import of tokens' },
} as const satisfies Record<string, AdmissionCall['operation']>;

/**
 * The caller of an operation of the command line. It is authenticated and authorised, and its refusal is recorded, by the functions of the
 * executor. The other steps of the executor are not done (docs/explanation/architecture.md).
 * @param check throws a ForbiddenError where the operation needs more than its permission
 */
export function commandLineCaller(
  id: keyof typeof commandLineOperations,
  request: AdmissionCall['request'],
  dependencies: AdmissionDependencies,
  check: (principal: Principal) => void = () => undefined,
): PresentCaller {
  const operation = commandLineOperations[id];
  const call = { id, operation, request };
  return {
    contextOf: (admitted) => contextOf(call, admitted, dependencies),
    async principalNow() {
      const atMs = performance.now();
      const principal = await authenticate(call, dependencies);
      return workFor(call, { principal, atMs }, dependencies, () => {
        authorize(operation, principal);
        check(principal);
        return principal;
      });
    },
  };
}
