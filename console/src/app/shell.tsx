import { type ReactNode, Suspense, useEffect, useRef, useState } from 'react';
import { Application } from '../screens/application.tsx';
import { Applications } from '../screens/applications.tsx';
import { Audit } from '../screens/audit.tsx';
import { Operations } from '../screens/operations.tsx';
import { Overview } from '../screens/overview.tsx';
import { NewReactor, Reactor } from '../screens/reactor.tsx';
import { Reactors } from '../screens/reactors.tsx';
import { Tenant } from '../screens/tenant.tsx';
import { Token } from '../screens/token.tsx';
import { Tokens } from '../screens/tokens.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Button } from '../ui/parts.tsx';
import { Note } from '../ui/states.tsx';
import { Mark, icons } from './icons.tsx';
import { hrefOf, usePlace } from './router.ts';
import { useSession } from './session.tsx';
import { KeyForm } from './sign-in.tsx';

interface Screen {
  readonly name: keyof typeof icons;
  readonly title: string;
  readonly show: (rest: readonly string[]) => ReactNode;
}

const screens: readonly Screen[] = [
  { name: 'overview', title: 'Overview', show: () => <Overview /> },
  {
    name: 'tokens',
    title: 'Tokens',
    show: ([id]) => (id === undefined ? <Tokens /> : <Token key={id} id={id} />),
  },
  {
    name: 'applications',
    title: 'Applications',
    show: ([id]) => (id === undefined ? <Applications /> : <Application key={id} id={id} />),
  },
  { name: 'audit', title: 'Audit', show: () => <Audit /> },
  { name: 'reactors', title: 'Reactors', show: ([id]) => reactorsOf(id) },
  { name: 'operations', title: 'Operations', show: () => <Operations /> },
  { name: 'tenant', title: 'Tenant', show: () => <Tenant /> },
];

function reactorsOf(id: string | undefined): ReactNode {
  if (id === undefined) return <Reactors />;
  return id === 'new' ? <NewReactor /> : <Reactor key={id} id={id} />;
}

function Navigation({ current }: { readonly current: string }) {
  return (
    <nav className="nav" aria-label="Main">
      <ul>
        {screens.map(({ name, title }) => (
          <li key={name}>
            <a href={hrefOf([name])} aria-current={name === current ? 'page' : undefined}>
              {icons[name]}
              {title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function SignedIn() {
  const { session, signOut, enter } = useSession();
  const [isAdding, setAdding] = useState(false);
  const names = session.applications.map(({ name }) => name).join(', ');
  return (
    <div className="who">
      <div className="muted">
        <div>{session.tenant.name}</div>
        <div>{names}</div>
      </div>
      <div className="row">
        <Button isSmall onClick={() => setAdding(true)}>
          Add key
        </Button>
        <Button isSmall onClick={() => void signOut()}>
          Sign out
        </Button>
      </div>
      {isAdding && (
        <Dialog title="Add a key to this session" onClose={() => setAdding(false)}>
          <p className="muted">
            With a management key and a private key of one tenant, the console shows the tenant and, masked,
            the tokens that the private key may read.
          </p>
          <KeyForm
            action="Add key"
            onSignedIn={(added) => {
              enter(added);
              setAdding(false);
            }}
          />
          <div className="row end">
            <Button onClick={() => setAdding(false)}>Cancel</Button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

export function Shell() {
  const { parts } = usePlace();
  const [name = 'overview', ...rest] = parts;
  const screen = screens.find((each) => each.name === name);
  const main = useRef<HTMLElement>(null);
  const place = parts.join('/');
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${screen?.title ?? 'Not found'} · Token vault`;
    // A screen reader reads the new page, and the keyboard goes on in it.
    if (!isFirst.current) main.current?.focus();
    isFirst.current = false;
  }, [place, screen]);
  return (
    <div className="shell">
      <a
        className="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <header className="side">
        <div className="brand">
          <Mark />
          Token vault
        </div>
        <Navigation current={name} />
        <SignedIn />
      </header>
      <main ref={main} id="main" className="page" tabIndex={-1}>
        <Suspense fallback={<p className="empty">Loading …</p>}>
          {screen === undefined ? <Note tone="warn">There is no such page.</Note> : screen.show(rest)}
        </Suspense>
      </main>
    </div>
  );
}
