import { InvalidArgumentError } from 'commander';

const uuidForm = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;

export function uuid(text: string): string {
  if (!uuidForm.test(text)) throw new InvalidArgumentError('It is not a UUID.');
  return text.toLowerCase();
}
