import { DomainError } from '@token-vault/contracts';
import type { Answer } from './handlers.ts';

/** The tokens and results that an answer or an error was made of. */
export type MadeOf = Pick<Answer, 'tokens' | 'isUnrepeatable'>;

/**
 * An error whose text, or whose existence, depends on data of tokens: code that gets it learns of the data. So the result of that code is
 * decided by these tokens, as if it had been shown them.
 */
export class DataDependentError extends DomainError {
  readonly madeOf: MadeOf;

  constructor({ code, message, errors = {} }: DomainError, madeOf: MadeOf) {
    super(code, message, { errors });
    this.madeOf = madeOf;
  }
}
