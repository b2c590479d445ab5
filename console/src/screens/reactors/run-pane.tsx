import { useState } from 'react';
import type { ReactResponse, ShownInvocation } from '@token-vault/contracts';
import { call } from '../../api/client.ts';
import { useAction, useQuery } from '../../api/use-query.ts';
import { useMay } from '../../app/session.tsx';
import { formatDuration } from '../../ui/format.ts';
import { Button, Card, Facts, TextAreaField } from '../../ui/parts.tsx';
import { Failure, Missing, Note } from '../../ui/states.tsx';
import { TokenPicker } from './token-picker.tsx';

interface Ended {
  readonly outcome: ReactResponse;
  readonly ms: number;
}

/** Undefined for a text that is no JSON object. */
function readArguments(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}

/** The arguments with the id of a token under the first free name. */
function withToken(args: Readonly<Record<string, unknown>>, id: string): string {
  let name = 'token';
  for (let number = 2; name in args; number += 1) name = `token_${number}`;
  return JSON.stringify({ ...args, [name]: id }, null, 2);
}

interface RunPaneProps {
  readonly reactorId: string;
  readonly isStored: boolean;
}

/** Runs the stored code with plain arguments. */
export function RunPane(props: RunPaneProps) {
  const mayUse = useMay('token:use');
  return (
    <Card title="Run">
      {mayUse ? (
        <RunForm {...props} />
      ) : (
        <>
          <Missing permission="token:use" />
          <Note>
            A private key that may use tokens runs reactors. Add one to this session (&ldquo;Add key&rdquo;).
          </Note>
        </>
      )}
    </Card>
  );
}

function RunForm({ reactorId, isStored }: RunPaneProps) {
  const mayRead = useMay('token:read');
  const [isPicking, setPicking] = useState(false);
  const [args, setArgs] = useState('{}');
  const given = readArguments(args);
  const [ended, setEnded] = useState<Ended>();
  const run = useAction(async () => {
    setEnded(undefined);
    const start = performance.now();
    const body = { args: given };
    const path = `/reactors/${reactorId}/react`;
    const outcome = (await call<ReactResponse | undefined>('POST', path, { body })) ?? {};
    setEnded({ outcome, ms: performance.now() - start });
  });
  const isValid = given !== undefined;
  return (
    <div className="form">
      <Arguments text={args} isValid={isValid} onChange={setArgs} />
      <div className="row">
        <Button
          look="primary"
          disabled={!isValid || run.isRunning || !isStored}
          onClick={() => void run.run()}
        >
          {run.isRunning ? 'Running …' : 'Run'}
        </Button>
        {mayRead && (
          <Button disabled={!isValid} onClick={() => setPicking(true)}>
            Choose a token …
          </Button>
        )}
        {!isStored && <span className="muted small">Save the code first: the stored code runs.</span>}
      </div>
      {isPicking && given && (
        <TokenPicker
          onClose={() => setPicking(false)}
          onPick={(id) => {
            setArgs(withToken(given, id));
            setPicking(false);
          }}
        />
      )}
      <div role="status">{ended && <Result {...ended} />}</div>
      {run.error && <Failure error={run.error} />}
      {run.error?.invocationId && <FailedRun key={run.error.invocationId} id={run.error.invocationId} />}
    </div>
  );
}

interface ArgumentsProps {
  readonly text: string;
  readonly isValid: boolean;
  readonly onChange: (text: string) => void;
}

function Arguments({ text, isValid, onChange }: ArgumentsProps) {
  return (
    <TextAreaField
      label="Arguments (a JSON object)"
      hint="Plain values and ids of tokens. Expressions such as {{ id }} are refused: they would give the code plaintext, which a session of the console is not shown."
      fault={isValid ? undefined : 'This is not a JSON object.'}
      value={text}
      onChange={onChange}
    />
  );
}

function Result({ outcome, ms }: Ended) {
  const { raw, tokens, run } = outcome;
  const shown = (value: unknown) =>
    value === undefined ? undefined : <pre>{JSON.stringify(value, null, 2)}</pre>;
  return (
    <div className="stack-tight">
      <Facts
        facts={[
          ['Answered in', formatDuration(ms)],
          ['Tokens shown to it', run && String(run.tokens_seen)],
          ['Result', shown(raw) ?? <span className="muted">nothing raw</span>],
          ['Tokens made', shown(tokens)],
        ]}
      />
      {run && <Printed lines={run.console} isCut={run.is_cut} />}
    </div>
  );
}

/** The lines that the code of a failed run has printed. The answer of such a run is an error without its lines. */
function FailedRun({ id }: { readonly id: string }) {
  const { data } = useQuery<ShownInvocation>(`/invocations/${id}`);
  if (data?.console_withheld !== undefined) return <Note>{data.console_withheld}</Note>;
  return data?.console ? <Printed lines={data.console.lines} isCut={data.console.is_cut} /> : null;
}

interface PrintedProps {
  readonly lines: NonNullable<ReactResponse['run']>['console'];
  readonly isCut: boolean;
}

function Printed({ lines, isCut }: PrintedProps) {
  if (lines.length === 0) return null;
  return (
    <pre className="console-lines" role="log" aria-label="Console" tabIndex={0}>
      {lines.map(({ level, text }) => (level === 'log' ? text : `${level}: ${text}`)).join('\n')}
      {isCut && '\n…'}
    </pre>
  );
}
