import { createBatcher } from '@token-vault/batching';
import { DomainError, type Json } from '@token-vault/contracts';
import type { EgressFetch } from '@token-vault/egress';
import type { GuestConsole, SandboxPool } from '../sandbox/index.ts';
import { failureOfRun, type InvocationFailure } from './outcome.ts';
import type { OutputWriter, RunOrigin, VaultOperations } from './ports.ts';
import { tokenized } from './run-tokens.ts';
import { serviceRequest } from './service-calls.ts';
import { recordingRefusals } from './refused-steps.ts';
import { WrittenExpressions } from './written-expressions.ts';

export interface CodeDependencies {
  readonly sandbox: Pick<SandboxPool, 'run'>;
  readonly fetch: EgressFetch;
  readonly operations: VaultOperations;
}

/** Code of a reactor or of a proxy, with all that it is given. */
export interface Code {
  readonly code: string;
  readonly args: Json;
  /** The text of `args.body` as JSON (RunRequest). */
  readonly bodyText?: string | undefined;
  readonly configuration: Readonly<Record<string, string>>;
  /** The application whose rights `req.svc` has. Without one there is no `req.svc`. */
  readonly applicationId: string | undefined;
  readonly timeoutMs: number;
  readonly origin: RunOrigin;
  /** Makes the tokens of the output; or the error of an output with tokens. */
  readonly writer: OutputWriter | DomainError;
  readonly signal: AbortSignal;
  /**
   * Called with the lines that the code printed, also when it failed. `mayHoldTokens`: the code could call the vault, or its output is to
   * become tokens. The answers to its calls are not analysed: a call may be refused, or still run when the code ends.
   */
  readonly onConsole?: ((console: GuestConsole, mayHoldTokens: boolean) => void) | undefined;
}

export type CodeEnd =
  | { readonly kind: 'succeeded'; readonly raw: Json | undefined; readonly tokens: Json | undefined }
  | InvocationFailure;

/** Runs code in the sandbox, once, and tokenizes its output. @throws DomainError of the tokenization */
export async function runCode({ sandbox, fetch, operations }: CodeDependencies, run: Code): Promise<CodeEnd> {
  const { code, args, bodyText, configuration, applicationId, timeoutMs, writer, signal } = run;
  const origin = recordingRefusals(run.origin);
  const { tenantId } = origin;
  // Code may send many requests at once. One decision that begins after all of them is enough.
  const decisions = createBatcher<undefined, void>({
    maxItems: Infinity,
    async run(asked) {
      await origin.requireSendable();
      return asked.map(() => undefined);
    },
  });
  const written = new WrittenExpressions([code, ...Object.values(configuration)]);
  const svc = async (by: string, method: string, values: Json): Promise<Json> => {
    const request = serviceRequest(method, values);
    if (request === undefined) throw new Error('there is no such method');
    const answer = await operations.asApplication(by, { ...request, written }, origin);
    written.noteShown(request.operation, answer);
    return answer;
  };
  const outcome = await sandbox.run({
    tenantId,
    code,
    args,
    bodyText,
    configuration,
    hasSvc: applicationId !== undefined,
    timeoutMs,
    hostCalls: {
      fetch: (request) => fetch({ ...request, tenantId, permit: () => decisions.add(undefined) }),
      ...(applicationId === undefined ? {} : { svc: (method, values) => svc(applicationId, method, values) }),
    },
    signal,
  });
  const makesTokens = outcome.kind === 'succeeded' && outcome.result.tokenize !== undefined;
  run.onConsole?.(outcome.console, applicationId !== undefined || makesTokens);
  if (outcome.kind !== 'succeeded') return failureOfRun(outcome);
  const { raw, tokenize } = outcome.result;
  if (tokenize === undefined) return { kind: 'succeeded', raw, tokens: undefined };
  if (writer instanceof DomainError) throw writer;
  const tokens = await tokenized(() => operations.tokenize({ payload: tokenize, written }, writer, origin));
  return { kind: 'succeeded', raw, tokens };
}
