import { DomainError } from '@token-vault/contracts';
import type { Answer } from './handlers.ts';

/** The tokens and results that an answer or an error was made of. */
export type MadeOf = Pick<Answer, 'tokens' | 'isUnrepeatable'>;

/** A run of a reactor failed. The text of the error is of its code, so it may hold data of the tokens that the code was shown. */
export class RunFailedError extends DomainError {
  readonly madeOf: MadeOf;

  constructor({ code, message, errors = {} }: DomainError, madeOf: MadeOf) {
    super(code, message, { errors });
    this.madeOf = madeOf;
  }
}
