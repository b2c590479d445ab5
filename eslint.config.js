import tseslint from 'typescript-eslint';

export default tseslint.config(
  {
    ignores: [
      '**/node_modules/**',
      '.cache/**',
      '.vault/**',
      '**/*.cjs',
      '**/*.mjs',
      '**/*.js',
      '!eslint.config.js',
    ],
  },
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: {
        project: ['./tsconfig.json', './console/tsconfig.json'],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      'max-lines': ['error', { max: 250, skipBlankLines: true, skipComments: true }],
      'max-params': ['error', { max: 4 }],
      'max-lines-per-function': ['error', { max: 60, skipBlankLines: true, skipComments: true }],
      complexity: ['error', 14],
      eqeqeq: 'error',
      'no-restricted-syntax': [
        'error',
        // The names of read models come from their definition (ADR 35), so that a renamed column does not compile.
        ...['TemplateElement[value.raw=', 'Literal[value='].map((node) => ({
          selector: `${node}/\\brm_\\w+\\.\\w/]`,
          message: 'take the names of tables and columns from `aliased` of contracts',
        })),
      ],
    },
  },
  {
    files: ['**/test/**/*.ts', '**/bench/**/*.ts', '**/*.test.ts', '**/contract-suite.ts'],
    rules: {
      'max-lines-per-function': 'off',
      'max-lines': ['error', 500],
      'max-params': 'off',
      'no-restricted-syntax': 'off',
    },
  },
  {
    // These functions have the parameters of Node's API, which code of tenants calls.
    files: ['ciphers', 'derivation', 'subtle'].map(
      (name) => `reactor-runner/src/sandbox/guest/modules/crypto/${name}.ts`,
    ),
    rules: { 'max-params': 'off' },
  },
);
