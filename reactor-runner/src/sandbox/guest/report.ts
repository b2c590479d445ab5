import { asString, BaseError, BaseRangeError, host, stringify } from './bridge.ts';
import { brandOf, errorsFrom } from './errors.ts';

export function reportResponse(response: unknown): void {
  if (
    response !== undefined &&
    response !== null &&
    (typeof response !== 'object' || Array.isArray(response))
  ) {
    reportFailure(new BaseError('A reactor must return an object with raw or tokenize'));
    return;
  }
  let text: string;
  try {
    const { raw, tokenize } = (response ?? {}) as { raw?: unknown; tokenize?: unknown };
    text = stringify({ raw, tokenize });
  } catch (error) {
    host(isNative(error, 'Invalid string length') ? 'output-too-large' : 'not-serialisable');
    return;
  }
  host('succeeded', text);
}

function isNative(error: unknown, message: string): boolean {
  return error instanceof BaseRangeError && error.message === message;
}

export function reportFailure(error: unknown): void {
  try {
    if (isNative(error, 'Array buffer allocation failed')) host('out-of-memory');
    else host('failed', stringify(brandOf(error) ?? unbranded(error)));
  } catch {
    host(
      'failed',
      '{"status":500,"detail":"Reactor Runtime Error","errors":{"error":["The reactor failed"]}}',
    );
  }
}

/** Only the message: the error of an HTTP client holds its request, which may hold a card number. */
function unbranded(error: unknown) {
  const text =
    error instanceof BaseError ? asString(error.message) : typeof error === 'string' ? error : undefined;
  return { status: 500, detail: 'Reactor Runtime Error', errors: errorsFrom(text, 'The reactor failed') };
}

export function reportLoadFailure(error: unknown): void {
  let message = 'The code failed while it was loaded';
  let position = '';
  try {
    if (error instanceof BaseError) {
      message = `${error.name}: ${error.message}`.slice(0, 1_000);
      position = /reactor\.js:(\d+:\d+)/.exec(asString(error.stack))?.[1] ?? '';
    }
  } catch {
    // Reading a hostile error object threw an error. The generic message is used.
  }
  host('load-failed', message, position);
}
