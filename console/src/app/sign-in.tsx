import { type FormEvent, useState } from 'react';
import { call, sessionPath } from '../api/client.ts';
import type { ConsoleSession } from '@token-vault/contracts';
import { useAction } from '../api/use-query.ts';
import { Button, TextField } from '../ui/parts.tsx';
import { Failure, Note } from '../ui/states.tsx';
import { Mark } from './icons.tsx';

/** A form that gives a key to the vault once, for a cookie. The key is kept nowhere: the field is emptied as soon as it was sent. */
export function KeyForm({
  action,
  onSignedIn,
}: {
  readonly action: string;
  readonly onSignedIn: (session: ConsoleSession) => void;
}) {
  const [key, setKey] = useState('');
  const { run, isRunning, error } = useAction(() =>
    call<ConsoleSession>('POST', sessionPath, { headers: { 'SVC-API-KEY': key.trim() } }),
  );
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const session = await run();
    setKey('');
    if (session !== undefined) onSignedIn(session);
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <TextField
        label="API key"
        type="password"
        required
        hint="A management key shows the tenant. A private key shows its tokens, masked."
        value={key}
        onChange={setKey}
      />
      {error &&
        (error.status === 401 ? <Note tone="bad">This key is not valid.</Note> : <Failure error={error} />)}
      <Button type="submit" look="primary" disabled={isRunning || key.trim() === ''}>
        {action}
      </Button>
    </form>
  );
}

interface SignInProps {
  readonly hasEnded: boolean;
  readonly onSignedIn: (session: ConsoleSession) => void;
}

export function SignIn({ hasEnded, onSignedIn }: SignInProps) {
  return (
    <main className="sign-in">
      <section className="card stack">
        <div className="brand">
          <Mark />
          Token vault
        </div>
        <h1>Sign in</h1>
        {hasEnded && <Note>Your session has ended. Sign in again.</Note>}
        <KeyForm action="Sign in" onSignedIn={onSignedIn} />
        <p className="muted small">
          The key is exchanged for a session and not kept in this browser. The session ends after 30 minutes
          without use, and after 12 hours at most.
        </p>
      </section>
    </main>
  );
}
