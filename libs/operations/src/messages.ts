import type { z } from 'zod';

const typeNames: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  record: 'an object',
  array: 'a list',
  null: 'null',
  date: 'a date',
};

const formats: Readonly<Record<string, string>> = {
  uuid: 'must be a UUID',
  datetime: 'must be a date and time such as 2031-01-31T12:00:00Z',
  date: 'must be a date such as 2031-01-31',
  url: 'must be a URL',
};

/** Longer lists of allowed values are not quoted; they are in the reference. */
const longestList = 30;

const count = (size: number | bigint, one: string, many: string): string =>
  `${size} ${size === 1n || size === 1 ? one : many}`;

function sizeMessage(origin: string, bound: 'at least' | 'at most', size: number | bigint): string {
  if (origin === 'string')
    return bound === 'at least' && size <= 1
      ? 'must not be empty'
      : `must be ${bound} ${count(size, 'character', 'characters')} long`;
  if (origin === 'array' || origin === 'set')
    return bound === 'at least' && size <= 1
      ? 'must not be empty'
      : `must have ${bound} ${count(size, 'item', 'items')}`;
  return `must be ${bound} ${size}`;
}

/**
 * The message for a fault that the validator finds. Never quotes the value.
 * Takes the raw issue of zod, before zod makes a message. Returns undefined where the schema has a message of its own.
 */
export function messageOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined
        ? 'is required'
        : `must be ${typeNames[issue.expected] ?? issue.expected}`;
    case 'too_small':
      return sizeMessage(issue.origin, 'at least', issue.minimum);
    case 'too_big':
      return sizeMessage(issue.origin, 'at most', issue.maximum);
    case 'invalid_value':
      if (issue.input === undefined) return 'is required';
      return issue.values.length <= longestList
        ? `must be one of ${issue.values.map(String).join(', ')}`
        : 'is not one of the allowed values';
    case 'invalid_format':
      return formats[issue.format] ?? 'does not have the right form';
    case 'invalid_key':
      return 'has a name that is not allowed';
    case 'unrecognized_keys':
      return 'has unknown fields';
    default:
      return 'is not valid';
  }
}
