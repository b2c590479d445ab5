import { useCallback, useEffect, useState } from 'react';
import { asApiError, call, onSignedOut } from '../api/client.ts';
import type { ConsoleSession } from '@token-vault/contracts';
import { Failure } from '../ui/states.tsx';
import { SessionProvider } from './session.tsx';
import { Shell } from './shell.tsx';
import { SignIn } from './sign-in.tsx';

type State =
  | { readonly is: 'starting' }
  | { readonly is: 'unreachable'; readonly error: unknown }
  | { readonly is: 'out'; readonly wasIn: boolean }
  | { readonly is: 'in'; readonly session: ConsoleSession };

const readSession = async (): Promise<State> => {
  try {
    return { is: 'in', session: await call<ConsoleSession>('GET', '/console/session') };
  } catch (error) {
    return asApiError(error).status === 401 ? { is: 'out', wasIn: false } : { is: 'unreachable', error };
  }
};

export function App() {
  const [state, setState] = useState<State>({ is: 'starting' });
  const start = useCallback(() => void readSession().then(setState), []);
  useEffect(() => {
    onSignedOut(() => setState((before) => ({ is: 'out', wasIn: before.is === 'in' })));
    start();
  }, [start]);
  if (state.is === 'starting') return null;
  if (state.is === 'unreachable') {
    return (
      <main className="sign-in">
        <Failure error={asApiError(state.error)} retry={start} />
      </main>
    );
  }
  const enter = (session: ConsoleSession) => setState({ is: 'in', session });
  if (state.is === 'out') return <SignIn hasEnded={state.wasIn} onSignedIn={enter} />;
  const signOut = async () => {
    try {
      await call('DELETE', '/console/session');
      setState({ is: 'out', wasIn: false });
    } catch (error) {
      if (![401, 404].includes(asApiError(error).status)) throw error;
      // The session has ended. Another one of this browser may have taken its place.
      start();
    }
  };
  return (
    <SessionProvider value={{ session: state.session, signOut, enter }}>
      <Shell />
    </SessionProvider>
  );
}
