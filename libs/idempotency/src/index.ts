export {
  createIdempotentAnswers,
  type IdempotentAnswersOptions,
  type SweptIdempotentAnswers,
} from './idempotent-answers.ts';
export { idempotencyMigrations } from './migrations.ts';
export { answerEntityOfToken } from './sealed-answer.ts';
