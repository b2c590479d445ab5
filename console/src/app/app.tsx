import type { ReactNode } from 'react';
import type { ApiError } from '../api/client.ts';
import { Button } from '../ui/parts.tsx';
import { Failure } from '../ui/states.tsx';
import { SessionProvider } from './session.tsx';
import { Shell } from './shell.tsx';
import { SignIn } from './sign-in.tsx';
import { useSignedIn } from './use-signed-in.ts';

export function App() {
  const { state, start, enter, signOut } = useSignedIn();
  switch (state.is) {
    case 'starting':
      return null;
    case 'unreachable':
      return (
        <main className="sign-in">
          <Failure error={state.error} retry={start} />
        </main>
      );
    case 'out':
      return <SignIn hasEnded={state.wasIn} onSignedIn={enter} />;
    case 'leaving':
      return <SigningOut error={state.error} retry={() => void signOut()} />;
    case 'replaced':
      return <OtherSession onShow={start} />;
    case 'in':
      return (
        <SessionProvider value={{ session: state.session, signOut, enter }}>
          <Shell />
        </SessionProvider>
      );
  }
}

function Notice({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <main className="sign-in">
      <section className="card stack">
        <h1>{title}</h1>
        {children}
      </section>
    </main>
  );
}

interface SigningOutProps {
  readonly error: ApiError | undefined;
  readonly retry: () => void;
}

function SigningOut({ error, retry }: SigningOutProps) {
  if (error === undefined) return <Notice title="Signing out …">{null}</Notice>;
  return (
    <Notice title="Not signed out yet">
      <Failure error={error} retry={retry} />
      <p>
        The vault has not confirmed that your session has ended. Until it does, whoever loads this page again
        may see the session.
      </p>
    </Notice>
  );
}

function OtherSession({ onShow }: { readonly onShow: () => void }) {
  return (
    <Notice title="Another session">
      <p>
        In another tab, this browser has signed in to another tenant. The session of this page has ended.
        Nothing was written to the other tenant from here.
      </p>
      <Button look="primary" onClick={onShow}>
        Show the other session
      </Button>
    </Notice>
  );
}
