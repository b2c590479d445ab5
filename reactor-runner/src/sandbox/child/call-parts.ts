import { parseChecked } from '../checked-json.ts';
import type { SandboxLimits } from '../limits.ts';

/** The parts that are sent to the pool: small JSON, and bytes that are not parsed on the way. */
export interface CallParts {
  readonly payload: string;
  readonly body?: Buffer;
}

export interface CallRefusal {
  readonly message: string;
  readonly code: string;
  /** Set for arguments of `svc`, as in an answer of the service. */
  readonly status?: number;
  readonly problem?: object;
}

const tooLarge: CallRefusal = { code: 'request-too-large', message: 'The request body is too large' };
const invalid: CallRefusal = { code: 'invalid-request', message: 'The request is not valid' };

/** The service gives the same answer to arguments that become as large there. */
function refusedArguments({ code }: CallRefusal, fault: string): CallRefusal {
  const title = 'One or more validation errors occurred.';
  const problem = { title, status: 400, errors: { args: [fault] } };
  return { code, message: 'The service answered with status 400', status: 400, problem };
}

/**
 * Splits a call of guest code into its parts. The limits are checked here, where parsing costs the run's own time.
 */
export function partsOf(method: string, text: string, limits: SandboxLimits): CallParts | CallRefusal {
  if (method !== 'fetch') return argumentsOf(text, limits);
  const { body, ...head } = JSON.parse(text) as { readonly body?: unknown };
  const payload = JSON.stringify(head);
  if (payload.length > limits.requestHeadChars) return invalid;
  if (typeof body !== 'string') return { payload };
  const bytes = Buffer.from(body, 'base64');
  return bytes.length > limits.requestBytes ? tooLarge : { payload, body: bytes };
}

function argumentsOf(text: string, limits: SandboxLimits): CallParts | CallRefusal {
  const body = Buffer.from(text, 'utf8');
  if (body.length > limits.argsBytes)
    return refusedArguments(tooLarge, `must be at most ${limits.argsBytes / 1_048_576} MiB as JSON`);
  try {
    parseChecked(text, { depth: limits.jsonDepth, nodes: limits.jsonNodes });
    return { payload: '', body };
  } catch {
    return refusedArguments(
      invalid,
      `must be nested at most ${limits.jsonDepth} levels, and have at most ${limits.jsonNodes} values`,
    );
  }
}
