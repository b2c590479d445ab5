import { type ButtonHTMLAttributes, type InputHTMLAttributes, type ReactNode, useId } from 'react';

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly look?: 'primary' | 'danger' | 'plain';
  readonly isSmall?: boolean;
}

export function Button({ look, isSmall, className, ...rest }: ButtonProps) {
  const classes = ['button', look, isSmall && 'small', className].filter(Boolean).join(' ');
  return <button type="button" {...rest} className={classes} />;
}

/** They tie a control to its label, and to the fault or the hint below it. */
interface ControlAttributes {
  readonly id: string;
  readonly className: string;
  readonly 'aria-describedby': string | undefined;
  readonly 'aria-invalid': boolean;
}

interface FieldProps {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly fault?: string | undefined;
  readonly children: (control: ControlAttributes) => ReactNode;
}

/** A label with its control, and the fault that the vault found in it. */
function Field({ label, hint, fault, children }: FieldProps) {
  const id = useId();
  const told = fault ?? hint;
  const control = {
    id,
    className: 'input',
    'aria-describedby': told === undefined ? undefined : `${id}-told`,
    'aria-invalid': fault !== undefined,
  };
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(control)}
      {told !== undefined && (
        <span id={`${id}-told`} className={fault === undefined ? 'muted small' : 'fault'}>
          {told}
        </span>
      )}
    </div>
  );
}

interface TextFieldProps extends Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange' | 'value'> {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly hint?: string;
  readonly fault?: string | undefined;
}

export function TextField({ label, value, onChange, hint, fault, ...rest }: TextFieldProps) {
  return (
    <Field label={label} hint={hint} fault={fault}>
      {(control) => (
        <input
          {...rest}
          {...control}
          autoComplete="off"
          spellCheck={false}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

/** For text of several lines. */
export function TextAreaField({
  label,
  value,
  onChange,
  hint,
  fault,
}: Pick<TextFieldProps, 'label' | 'value' | 'onChange' | 'hint' | 'fault'>) {
  return (
    <Field label={label} hint={hint} fault={fault}>
      {(control) => (
        <textarea
          {...control}
          rows={4}
          spellCheck={false}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

interface Choice {
  readonly value: string;
  readonly label: string;
}

interface SelectFieldProps {
  readonly label: string;
  readonly value: string;
  readonly choices: readonly (string | Choice)[];
  readonly onChange: (value: string) => void;
  readonly fault?: string | undefined;
  readonly disabled?: boolean;
}

export function SelectField({ label, value, choices, onChange, fault, disabled }: SelectFieldProps) {
  return (
    <Field label={label} fault={fault}>
      {(control) => (
        <select
          {...control}
          value={value}
          disabled={disabled}
          onChange={(event) => onChange(event.target.value)}
        >
          {choices.map((choice) => {
            const each = typeof choice === 'string' ? { value: choice, label: choice } : choice;
            return (
              <option key={each.value} value={each.value}>
                {each.label}
              </option>
            );
          })}
        </select>
      )}
    </Field>
  );
}

interface CheckProps {
  readonly label: string;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
  readonly disabled?: boolean;
}

export function Check({ label, checked, onChange, disabled }: CheckProps) {
  return (
    <label className="check">
      <input
        type="checkbox"
        checked={checked}
        disabled={disabled}
        onChange={(event) => onChange(event.target.checked)}
      />
      {label}
    </label>
  );
}

export type Tone = 'ok' | 'warn' | 'bad' | 'info';

export function Badge({
  tone,
  children,
}: {
  readonly tone?: Tone | undefined;
  readonly children: ReactNode;
}) {
  return <span className={`badge ${tone ?? ''}`}>{children}</span>;
}

interface CardProps {
  readonly title: string;
  readonly actions?: ReactNode;
  /** The content brings its own inner space, as a table does. */
  readonly isFlush?: boolean;
  readonly children: ReactNode;
}

export function Card({ title, actions, isFlush, children }: CardProps) {
  const id = useId();
  return (
    <section className="card" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {actions !== undefined && <div className="row">{actions}</div>}
      </header>
      {isFlush ? children : <div className="body">{children}</div>}
    </section>
  );
}

export function PageHead({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="page-head">
      <h1 className="grow">{title}</h1>
      {children}
    </div>
  );
}

export function Facts({ facts }: { readonly facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value !== undefined && value !== '' && value !== false)
        .map(([name, value]) => (
          <FactPair key={name} name={name} value={value} />
        ))}
    </dl>
  );
}

function FactPair({ name, value }: { readonly name: string; readonly value: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

/** How data is shown, in its colour and in words. */
export function Shown({ transform }: { readonly transform: string | undefined }) {
  return transform === undefined ? null : <span className={`shown ${transform}`}>{transform}</span>;
}
