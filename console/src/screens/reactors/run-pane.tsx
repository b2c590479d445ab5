import { useState } from 'react';
import { call } from '../../api/client.ts';
import { useAction } from '../../api/use-query.ts';
import { useMay } from '../../app/session.tsx';
import { formatDuration } from '../../ui/format.ts';
import { Button, Card, Facts, Field } from '../../ui/parts.tsx';
import { Failure, Missing, Note } from '../../ui/states.tsx';

interface Outcome {
  readonly raw?: unknown;
  readonly tokens?: unknown;
  readonly console?: readonly string[];
  readonly tokens_used?: number;
}
interface Ended {
  readonly outcome: Outcome;
  readonly ms: number;
}

const isJsonObject = (text: string): boolean => {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
};

/** Runs the stored code with plain arguments. */
export function RunPane({ reactorId, isStored }: { readonly reactorId: string; readonly isStored: boolean }) {
  const mayUse = useMay('token:use');
  const [args, setArgs] = useState('{}');
  const [ended, setEnded] = useState<Ended>();
  const run = useAction(async () => {
    setEnded(undefined);
    const start = performance.now();
    const body = { args: JSON.parse(args) as unknown };
    const outcome = (await call<Outcome | undefined>('POST', `/reactors/${reactorId}/react`, { body })) ?? {};
    setEnded({ outcome, ms: performance.now() - start });
  });
  const isValid = isJsonObject(args);
  return (
    <Card title="Run">
      {mayUse ? (
        <div className="form">
          <Field
            label="Arguments (a JSON object)"
            hint="Plain values only. A console session never opens a token in plaintext, so it cannot give one to code."
            fault={isValid ? undefined : 'This is not a JSON object.'}
          >
            {(id, describedBy) => (
              <textarea
                id={id}
                className="input"
                rows={4}
                spellCheck={false}
                aria-describedby={describedBy}
                aria-invalid={!isValid}
                value={args}
                onChange={(event) => setArgs(event.target.value)}
              />
            )}
          </Field>
          <div className="row">
            <Button
              look="primary"
              disabled={!isValid || run.isRunning || !isStored}
              onClick={() => void run.run()}
            >
              {run.isRunning ? 'Running …' : 'Run'}
            </Button>
            {!isStored && <span className="muted small">Save the code first: the stored code runs.</span>}
          </div>
          <div role="status">{ended && <Result {...ended} />}</div>
          {run.error && <Failure error={run.error} />}
        </div>
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

function Result({ outcome, ms }: Ended) {
  const { raw, tokens, console: lines, tokens_used: used } = outcome;
  const shown = (value: unknown) =>
    value === undefined ? undefined : <pre>{JSON.stringify(value, null, 2)}</pre>;
  return (
    <div className="stack-tight">
      <Facts
        facts={[
          ['Answered in', formatDuration(ms)],
          ['Tokens used', used === undefined ? undefined : String(used)],
          ['Result', shown(raw) ?? <span className="muted">nothing raw</span>],
          ['Tokens made', shown(tokens)],
        ]}
      />
      {lines && lines.length > 0 && (
        <pre className="console-lines" aria-label="Console" tabIndex={0}>
          {lines.join('\n')}
        </pre>
      )}
    </div>
  );
}
