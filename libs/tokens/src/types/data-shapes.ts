import type { TokenType } from '@token-vault/contracts';
import { z } from 'zod';
import { passesAbaChecksum, passesLuhn } from './checksums.ts';

/** Clients send `null` for an unset optional field. */
const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value) => value ?? undefined);

const cardNumber = z
  .string()
  .regex(/^\d{13,19}$/, 'must be 13–19 digits without separators')
  .refine(passesLuhn, 'must be a valid card number');
const routingNumber = z
  .string()
  .regex(/^\d{9}$/, 'must be nine digits')
  .refine(passesAbaChecksum, 'must be a valid routing number');

const card = z.object({
  number: cardNumber,
  expiration_month: optional(z.int().min(1, 'must be from 1 to 12').max(12, 'must be from 1 to 12')),
  expiration_year: optional(z.int().min(1000, 'must have four digits').max(9999, 'must have four digits')),
  cvc: optional(z.string().regex(/^\d{3,4}$/, 'must be three or four digits')),
});
const bank = z.object({
  routing_number: routingNumber,
  account_number: z.string().regex(/^\d{1,17}$/, 'must be up to 17 digits'),
});
const nineDigits = (pattern: RegExp) => z.string().regex(pattern, 'must be nine digits, with or without -');

/** The schema of each type's data (interface.md and rules.md §3). A type without a schema accepts any JSON. */
export const dataSchemas = {
  token: undefined,
  card,
  bank,
  card_number: cardNumber,
  us_bank_account_number: z.string().regex(/^\d{3,17}$/, 'must be 3–17 digits'),
  us_bank_routing_number: routingNumber,
  social_security_number: nineDigits(/^(\d{9}|\d{3}-\d{2}-\d{4})$/),
  employer_id_number: nineDigits(/^(\d{9}|\d{2}-\d{7})$/),
} as const satisfies Record<TokenType, z.ZodType | undefined>;

/** The properties that data of the type can have. Undefined when the type has no schema. */
export function fieldsOfShape(type: TokenType): readonly string[] | undefined {
  const schema = dataSchemas[type];
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : undefined;
}
