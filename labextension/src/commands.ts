/**
 * What can be done with the cells of a run, from the palette, the menus and the bar.
 */
import { Dialog, type ICommandPalette, Notification, showDialog } from '@jupyterlab/apputils';
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import { type INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { RunBar } from './bar';
import { type Cells, runAt } from './cells';
import { markOf, setMark } from './marks';
import type { NotebookRuns } from './notebook';
import { MIME } from './protocol';
import type { Run } from './run';

const CATEGORY = 'Agents';

/** What a command works on. */
interface At {
  panel: NotebookPanel;
  cells: Cells;
  run: Run | null;
}

/**
 * @param hit - The cell of an agent on which the context menu was opened, if it was.
 */
export function addCommands(
  commands: CommandRegistry,
  tracker: INotebookTracker,
  runsOf: (panel: NotebookPanel) => NotebookRuns,
  palette: ICommandPalette | null,
  hit: () => HTMLElement | undefined
): void {
  /** The run that is named, or of the cell under the context menu, or of the active one, or the newest of the notebook. */
  const at = (args: ReadonlyPartialJSONObject): At | null => {
    const panel = tracker.currentWidget;
    if (panel === null || panel.model === null) {
      return null;
    }
    const runs = runsOf(panel);
    const under = args['here'] === true ? hit() : undefined;
    const cell = under && panel.content.widgets.find(widget => widget.node === under);
    const named = (args['run'] as string | undefined) ?? runAt(cell?.model, MIME) ?? undefined;
    const active = runAt(panel.content.activeCell?.model, MIME) ?? runs.live.at(-1)?.key;
    const key = named ?? active ?? newest(panel);
    return key === null ? null : { panel, cells: runs.cellsOf(key), run: runs.get(key) };
  };

  const add = (
    id: string,
    label: string,
    caption: string,
    act: (at: At, args: ReadonlyPartialJSONObject) => unknown,
    enabled: (at: At) => boolean = () => true
  ): void => {
    const command = `codeact:${id}`;
    commands.addCommand(command, {
      label: args => `${label} ${(args['block'] as string | undefined) ?? ''}`.trim(),
      caption,
      isEnabled: args => {
        const found = at(args);
        return found !== null && enabled(found);
      },
      execute: async args => {
        const found = at(args);
        if (found !== null) {
          await act(found, args);
        }
      },
      describedBy: {
        args: {
          type: 'object',
          properties: { run: { type: 'string' }, block: { type: 'string' }, here: { type: 'boolean' } }
        }
      }
    });
    palette?.addItem({ command, category: CATEGORY });
  };

  const live = (found: At): boolean => found.run?.isLive === true;
  const written = (found: At): boolean => found.cells.all.length > 0;

  add('stop', 'Stop the Agent', 'End its blocks, and the run', ({ run }) => run?.stop(), live);
  add(
    'stop-block',
    'Stop Block',
    'End a block that runs; the agent goes on',
    ({ run }, args) => {
      const block = (args['block'] as string | undefined) ?? run?.bar?.blocks.at(-1);
      return block === undefined ? undefined : run?.stopBlock(block);
    },
    found => live(found) && (found.run?.bar?.blocks.length ?? 0) > 0
  );
  add('follow', 'Follow the Agent', 'Keep its newest cell in sight', ({ run }) => run?.setFollow(!run.follow), live);
  add('go-to-question', "Go to the Agent's Question", 'Put the focus to what has to be decided', ({ panel }) => {
    goToQuestion(panel);
  });
  add(
    'fold',
    'Fold the Cells of This Run',
    'Fold what has ended',
    ({ cells }) => {
      cells.fold(true);
    },
    written
  );
  add(
    'unfold',
    'Unfold the Cells of This Run',
    'Show code and outputs',
    ({ cells }) => {
      cells.fold(false);
    },
    written
  );
  commands.addCommand('codeact:settings', {
    label: 'Settings of Agents…',
    caption: 'Model, endpoint, limits',
    execute: () => commands.execute('settingeditor:open', { query: 'CodeAct agents' }),
    describedBy: { args: null }
  });
  palette?.addItem({ command: 'codeact:settings', category: CATEGORY });
  add('keep', 'Keep as My Cells', 'Copy the code that worked into ordinary cells, in order', keep, written);
  add('run-again', 'Run These Cells in My Kernel…', "Run the agent's code in the notebook's own kernel", again, written);
  add('remove', 'Remove the Cells of This Run', 'Delete them; undo brings them back', remove, written);

  NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
    const mark = markOf(cell.model);
    const panel = tracker.find(candidate => candidate.content === notebook);
    if (mark !== null && cell.model.type === 'code' && panel !== undefined) {
      setMark(cell.model, { ran_in: kernelName(panel) });
    }
  });
}

/** The run of the last cell that has one. */
function newest(panel: NotebookPanel): string | null {
  const cells = panel.content.widgets;
  for (let index = cells.length - 1; index >= 0; index--) {
    const key = runAt(cells[index]?.model, MIME);
    if (key !== null) {
      return key;
    }
  }
  return null;
}

function goToQuestion(panel: NotebookPanel): void {
  for (const cell of panel.content.widgets) {
    for (const widget of bars(cell)) {
      if (widget.goToQuestion()) {
        return;
      }
    }
  }
  Notification.info('No agent asks anything in this notebook.', { autoClose: 3000 });
}

interface Nested {
  children?(): Iterable<Nested>;
}

function* bars(widget: Nested): Generator<RunBar> {
  if (widget instanceof RunBar) {
    yield widget;
  } else {
    for (const child of widget.children?.() ?? []) {
      yield* bars(child);
    }
  }
}

/** Copies of the code cells that have ended well, below the run, as if the person had written them. */
function keep({ panel, cells }: At): void {
  const worked = cells.all.filter(cell => cell.type === 'code' && markOf(cell)?.state === 'ok');
  const shared = panel.content.model?.sharedModel;
  const last = cells.all.at(-1);
  if (shared === undefined || last === undefined) {
    return;
  }
  const place = indexOf(panel, last) + 1;
  shared.transact(() => {
    shared.insertCells(
      place,
      worked.map(cell => ({
        cell_type: 'code',
        source: cell.sharedModel.getSource(),
        metadata: {},
        outputs: (cell as ICodeCellModel).outputs.toJSON(),
        execution_count: null
      }))
    );
  });
  panel.content.activeCellIndex = place;
  Notification.success(`${worked.length} cells are yours now. They have not run in your kernel yet.`, {
    autoClose: 5000
  });
}

async function again({ panel, cells }: At): Promise<void> {
  const mine = new Set(cells.all.filter(cell => cell.type === 'code').map(cell => cell.id));
  const widgets = panel.content.widgets.filter(cell => mine.has(cell.model.id));
  const { button } = await showDialog({
    title: `Run ${widgets.length} cells in your kernel?`,
    body: `The agent wrote and ran this code in a kernel of its own. It will run in yours now (${kernelName(panel)}), with your variables, and outside of the agent's sandbox.`,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: 'Run' })]
  });
  if (button.accept) {
    await NotebookActions.runCells(panel.content, widgets, panel.sessionContext);
  }
}

function remove({ panel, cells }: At): void {
  const shared = panel.content.model?.sharedModel;
  shared?.transact(() => {
    for (const cell of cells.all.reverse()) {
      shared.deleteCell(indexOf(panel, cell));
    }
  });
}

function indexOf(panel: NotebookPanel, cell: ICellModel): number {
  return panel.content.widgets.findIndex(widget => widget.model === cell);
}

function kernelName(panel: NotebookPanel): string {
  return panel.sessionContext.kernelDisplayName;
}
