import { can, type Principal } from '@token-vault/access';
import {
  EnterpriseRequiredError,
  ForbiddenError,
  ValidationError,
  isUuid,
  type Operation,
} from '@token-vault/contracts';

/**
 * Checks that the caller may use the operation at all. For tokens the container decides later. @throws ForbiddenError,
 * EnterpriseRequiredError
 */
export function authorize(
  operation: Pick<Operation, 'plan' | 'permission' | 'summary'>,
  principal: Principal,
): void {
  if (operation.plan === 'enterprise' && principal.tenant.plan !== 'enterprise')
    throw new EnterpriseRequiredError(operation.summary);
  if (operation.permission !== null && !can(principal, operation.permission))
    throw new ForbiddenError(`The caller lacks the permission ${operation.permission}.`);
}

/** The transaction that the request belongs to (rules.md §9). @throws ValidationError, EnterpriseRequiredError */
export function transactionIdOf(
  operation: Operation,
  principal: Principal,
  given: string | undefined,
): string | undefined {
  if (given === undefined || !operation.isEnlistable) return undefined;
  if (!isUuid(given)) throw ValidationError.of('SVC-TRANSACTION-ID', 'must be a UUID');
  if (principal.tenant.plan !== 'enterprise') throw new EnterpriseRequiredError('A transaction');
  return given.toLowerCase();
}
