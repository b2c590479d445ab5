import { useEffect, useRef } from 'react';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';

/** Where and why the vault refused the code. */
export interface CodeFault {
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

const highlighting = HighlightStyle.define([
  { tag: [tags.keyword, tags.bool, tags.null], color: 'var(--accent)' },
  { tag: [tags.string, tags.regexp], color: 'var(--ok)' },
  { tag: tags.number, color: 'var(--reveal)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
]);

const theme = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--surface)', fontSize: '12.5px' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '19px', maxHeight: '520px' },
  '.cm-content, .cm-gutter': { minHeight: '260px' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--raised)', color: 'var(--muted)', border: '0' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--raised) 45%, transparent)' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--accent-soft) !important',
  },
  '.cm-tooltip': { backgroundColor: 'var(--surface)', color: 'var(--text)', border: '1px solid var(--line)' },
});

function diagnosticOf(state: EditorState, { line, column, message }: CodeFault): Diagnostic {
  const { from, to } = state.doc.line(Math.min(Math.max(1, line), state.doc.lines));
  const start = Math.min(from + Math.max(0, column - 1), to);
  return { from: start, to: Math.max(start, to), severity: 'error', message };
}

interface CodeEditorProps {
  readonly label: string;
  readonly value: string;
  readonly fault: CodeFault | undefined;
  readonly isReadOnly: boolean;
  readonly onChange: (value: string) => void;
}

/**
 * An editor for JavaScript. It lives in a shadow root: there CodeMirror adopts its style sheet, where it would write a `<style>` element in the page,
 * which the Content-Security-Policy forbids.
 */
export default function CodeEditor({ label, value, fault, isReadOnly, onChange }: CodeEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const change = useRef(onChange);
  change.current = onChange;
  const first = useRef(value);
  useEffect(() => {
    if (host.current === null) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: 'open' });
    const editor = new EditorView({
      root,
      parent: root,
      doc: first.current,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        highlightActiveLine(),
        lintGutter(),
        javascript(),
        syntaxHighlighting(highlighting),
        theme,
        // Tab leaves the editor, so that the keyboard is not caught in it.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
        EditorState.readOnly.of(isReadOnly),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) change.current(update.state.doc.toString());
        }),
      ],
    });
    view.current = editor;
    return () => editor.destroy();
  }, [label, isReadOnly]);
  useEffect(() => {
    const editor = view.current;
    if (editor === undefined) return;
    const diagnostics = fault === undefined ? [] : [diagnosticOf(editor.state, fault)];
    editor.dispatch(setDiagnostics(editor.state, diagnostics));
    const [diagnostic] = diagnostics;
    if (diagnostic) editor.dispatch({ effects: EditorView.scrollIntoView(diagnostic.from, { y: 'center' }) });
  }, [fault]);
  return <div ref={host} className={fault === undefined ? 'editor' : 'editor invalid'} />;
}
