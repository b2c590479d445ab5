import { type ReactNode, useEffect, useId, useRef } from 'react';
import { Button } from './parts.tsx';

interface DialogProps {
  readonly title: string;
  readonly isWide?: boolean;
  /** Only the buttons close the dialog, because it shows a value that is not shown again. */
  readonly isKept?: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** A modal dialog of the browser's own: it keeps the focus, and gives it back when it closes. */
export function Dialog({ title, isWide, isKept, onClose, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      className={isWide ? 'dialog wide' : 'dialog'}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        if (!isKept) onClose();
      }}
    >
      <h2 id={id}>{title}</h2>
      <div className="body">{children}</div>
    </dialog>
  );
}

interface ConfirmProps {
  readonly title: string;
  readonly action: string;
  readonly isRunning: boolean;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

export function Confirm({ title, action, isRunning, onConfirm, onClose, children }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <div className="row end">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" disabled={isRunning} onClick={onConfirm}>
          {action}
        </Button>
      </div>
    </Dialog>
  );
}
